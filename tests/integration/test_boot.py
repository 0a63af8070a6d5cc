"""Runs at boot, with real processes: this host's boot is as old as it is."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cronhare.adapters.system.boot import this_boot
from cronhare.domain.boot import LONGEST_AGO
from tests.integration.shell import Shell
from tests.integration.test_up import Starter, start

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


def runs(folder: Path) -> list[str]:
    listed = Shell(folder)("executions", "list", "--schedule", "hello", "--json").json()
    return [run["key"] for run in listed]


def test_a_schedule_has_one_run_per_boot_and_none_of_a_boot_before_it(
    start: Starter, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(JOBS)
    up = start(file)
    up.until("Running")
    assert up.end() == 0
    assert runs(tmp_path) == [], "the host was booted before the schedule came"

    with closing(sqlite3.connect(tmp_path / "cronhare.sqlite3")) as ledger:
        ledger.execute("UPDATE Scheduler SET updated_at = '2020-01-01 00:00:00.000000'")
        ledger.commit()
    boot = this_boot()
    recent = boot.ago < LONGEST_AGO.total_seconds()
    for _ in range(2):
        up = start(file)
        up.until("hello has its run of this boot" if recent else "Running")
        assert up.end() == 0
    assert runs(tmp_path) == ([boot.key] if recent else [])
