"""A scheduler raises alerts though no worker is left to do so."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import copyfile

import pytest

from cronhare.entrypoints.container import Container
from cronhare.entrypoints.processes.scheduler import alert_loop
from cronhare.entrypoints.settings.settings import Settings
from tests.integration.test_alerts_of_two_processes import FAILED
from tests.services.finding import wait_until

pytestmark = pytest.mark.integration


def test_a_scheduler_judges_without_a_jobs_file_or_a_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, migrated_sqlite: Path
) -> None:
    path = tmp_path / "ledger.db"
    copyfile(migrated_sqlite, path)
    monkeypatch.setenv("CRON_DATABASE_URL", f"sqlite:///{path}")
    container = Container(settings=Settings.read())
    with closing(sqlite3.connect(path)) as ledger, ledger:
        ledger.executemany(FAILED, [(n, n, 2, f"manual-{n}") for n in range(1, 7)])

    loop = alert_loop(container)
    loop.start()
    wait_until(lambda: bool(container.alerts().raised()), seconds=30, what="the alert")
    asyncio.run(loop.stop(seconds=5))

    assert [each.rule for each in container.alerts().raised()] == ["failed"]
