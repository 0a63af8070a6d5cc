"""Runs at boot: one per boot, and none for a boot from before the schedule came."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from dependency_injector import providers

from cronhare.adapters.jobs.reader import read_jobs
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.domain.schedules.keys import Boot
from cronhare.entrypoints.processes import embedded
from cronhare.entrypoints.processes.lifetime import StateReport
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.signals import ForcedExit, Shutdown
from cronhare.entrypoints.working import WorkingContainer
from cronhare.ports.records import ExecutionFilter
from tests.integration.shell import Shell
from tests.integration.test_up import Starter, start
from tests.services.finding import wait_until

pytestmark = pytest.mark.integration

__all__ = ["start"]  # a fixture

JOBS = """
[tasks.hello]
id = 1
command = ["echo", "hello at boot"]

[schedules.hello]
task = "hello"
on_boot = true
"""


def test_a_boot_before_the_schedule_came_has_no_run(start: Starter, tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(JOBS)

    up = start(file)
    up.until("Running")

    assert up.end() == 0
    assert Shell(tmp_path)("executions", "list", "--json").json() == []


async def no_change() -> None:
    """Read the jobs file again, which has not changed."""


class Host:
    def __init__(self, folder: Path, log: pytest.LogCaptureFixture) -> None:
        self._log, self._settings = log, Settings.read()
        file = folder / "jobs.toml"
        file.write_text(JOBS)
        self._jobs = read_jobs(file, policy=self._settings.policy)
        container = self._container()
        upgrade(container.engine())
        yesterday = container.claims().now() - timedelta(days=1)
        container.schedules().save(self._jobs.drafts, source=self._jobs.source, now=yesterday)
        container.engine().dispose()

    def _container(self) -> WorkingContainer:
        queues = embedded.queues_of([self._jobs])
        return WorkingContainer(settings=self._settings, tasks=self._jobs.tasks, queues=queues)

    async def up(self, boot: Boot) -> list[str]:
        """Be scheduler and worker until this boot is dealt with; give the keys of all runs."""
        container, shutdown = self._container(), Shutdown(ForcedExit(grace=10))
        container.boot.override(providers.Object(boot))
        embedded.prepare(container, [self._jobs])
        state, on_boot = StateReport(container), self._jobs.on_boot
        self._log.clear()
        process = asyncio.create_task(
            embedded.run(
                container, shutdown, state, concurrency=1, read_again=no_change, on_boot=on_boot
            )
        )
        await asyncio.to_thread(self._wait_for, "hello has its run of this boot")
        shutdown.requested.set()
        await process
        runs = container.records().executions(ExecutionFilter(schedule="hello"))
        container.engine().dispose()
        return [run.key for run in reversed(runs)]

    def _wait_for(self, text: str) -> None:
        wait_until(lambda: text in self._log.text, seconds=60, what=text, every=0.1)


def test_each_boot_has_one_run_however_often_a_worker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CRON_DATABASE_URL", f"sqlite:///{tmp_path}/ledger.db")
    caplog.set_level("INFO", logger="cronhare")
    host = Host(tmp_path, caplog)
    first, second = Boot("first", ago=60.0), Boot("second", ago=1.0)

    keys = [asyncio.run(host.up(boot)) for boot in (first, first, second)]

    assert keys == [[first.key], [first.key], [first.key, second.key]]
