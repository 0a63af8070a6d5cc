"""Events and alerts, as `cronhare up` tells them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.shell import Shell
from tests.integration.test_up import Starter, start
from tests.services.finding import wait_until

__all__ = ["start"]

pytestmark = pytest.mark.integration

#: One place: what is due while the slow one has it begins late, or is skipped.
JOBS = """
[defaults]
notify = ["ops"]
retry = { attempts = 1 }

[notify.ops]
events = ["arrived", "failed", "quarantined", "recovered", "skipped", "late"]
command = ["/bin/sh", "-c", "cat > $CRON_EVENT.$CRON_EVENT_SCHEDULE.json"]

[tasks.flaky]
command = ["/bin/sh", "-c", "test -e mark || { touch mark; exit 1; }"]

[tasks.pill]
command = ["/bin/sh", "-c", "kill -9 $$"]

[tasks.slow]
command = ["sleep", "3"]

[schedules.flaky]
task = "flaky"
every = "2s"
late_after = "1s"

[schedules.pill]
task = "pill"
schedule = "0 0 1 1 *"
on_start = true

[schedules.slow]
task = "slow"
every = "1s"
overlap = "skip"
"""

TOLD = {
    "schedule.arrived.slow.json",
    "schedule.failed.flaky.json",
    "schedule.recovered.flaky.json",
    "schedule.late.flaky.json",
    "schedule.quarantined.pill.json",
    "schedule.skipped.slow.json",
}


def test_each_kind_is_told_to_a_target(start: Starter, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write(JOBS)

    up = start(tmp_path / "jobs.toml", CRON_CONCURRENCY="1", CRON_CRASH_LIMIT="1")
    for name in sorted(TOLD):
        wait_until((tmp_path / name).exists, seconds=60, what=name)

    assert up.end() == 0
    events = shell("events", "list", "--json").json()
    assert {one["event"] for one in events} >= {name.split(".")[1] for name in TOLD}


ALERTING = """
[tasks.report]
id = 1
command = ["true"]

[schedules.nightly]
task = "report"
schedule = "0 0 1 1 *"
description = "the books"
user_id = 7

[notify.ops]
events = ["alert"]
command = ["/bin/sh", "-c", "cat > $CRON_EVENT.json"]
"""


def test_too_many_failures_are_told_to_a_target(start: Starter, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write(ALERTING)
    shell("db", "upgrade")
    shell("apply", "jobs.toml")
    with closing(sqlite3.connect(tmp_path / "cronhare.sqlite3")) as ledger, ledger:
        [scheduler] = ledger.execute("SELECT id FROM Scheduler WHERE name = 'nightly'").fetchone()
        ledger.executemany(
            "INSERT INTO FailedTask (id, execution_id, scheduler_id, schedule_name, execution_key, "
            "kind, task_type, task_id, queue, params, failed_at, failed_reason, attempts, "
            "retry_count) VALUES (?, 0, ?, 'nightly', 'key', 'failed', 'report', 1, "
            "'cron_scheduler', '{}', '2026-03-02 12:00:00.000000', 'no', 4, 3)",
            [(number, scheduler) for number in range(1, 7)],
        )

    up = start(tmp_path / "jobs.toml", CRON_ALERT_WARNING="off")
    wait_until((tmp_path / "alert.json").exists, seconds=60, what="the alert")
    up.until("6 failed cron tasks")
    [told] = shell("events", "list", "--json").json()
    [failed, *_] = shell("failed", "list", "--json").json()

    document = told["document"]
    assert (document["type"], told["event"]) == ("alert", "alert")
    alert = {"severity": "high", "message": "6 failed cron tasks", "task": None}
    assert document["data"]["alert"] == alert
    assert json.loads((tmp_path / "alert.json").read_text())["id"] == told["event_id"]
    whose = (failed["report_id"], failed["description"], failed["user_id"], failed["group_id"])
    assert whose == (1, "the books", 7, None)
