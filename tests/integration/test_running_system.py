"""Events, alerts, a retry budget and a circuit breaker, as `cronhare up` tells and keeps them."""

import json
import re
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


# Limits


#: At most one retry in 3 s, each as long after its failure.
RETRIES = {"CRON_RETRY_DELAY_MS": "3000", "CRON_RETRY_DELAY_MULTIPLIER": "1"}


def failing(folder: Path, *, schedules: int) -> Path:
    """Write schedules that begin at the start; their task fails twice."""
    task = '[tasks.sync]\nid = 1\ncommand = ["/bin/sh", "-c", "test $RETRY_COUNT -ge 2"]\n'
    runs = (
        f'[schedules.sync-{n}]\ntask = "sync"\non_start = true\nschedule = "0 0 1 1 *"\n'
        for n in range(schedules)
    )
    path = folder / "jobs.toml"
    path.write_text(task + "".join(runs))
    return path


def test_a_spent_budget_defers_retries_and_says_so(start: Starter, tmp_path: Path) -> None:
    shell, jobs = Shell(tmp_path), failing(tmp_path, schedules=5)
    budget = {"CRON_RETRY_BUDGET": "2", "CRON_RETRY_BUDGET_WINDOW_SECONDS": "3600"}

    up = start(jobs, CRON_RETRY_DELAY_MS="1", **budget)
    log = up.until("(Task execution failed.*){7}")
    log = up.until("(Scheduling retry .*){7}")

    assert len(re.findall(r"Scheduling retry \d/3 in \dms", log)) == 2
    assert log.count("[WARN] [queue=cron_scheduler") == 1
    assert "Retries are deferred: the retry budget of queue cron_scheduler, 2 per 3600 s" in log
    [seen] = shell("budgets", "list", "--json").json()
    assert (seen["limit"], seen["remaining"], seen["can_retry"]) == (2, 0, False)
    assert seen["deferred_until"] > seen["spent_since"]
    [waiting, *_] = shell("executions", "list", "--json").json()
    assert "is spent until" in shell("explain", str(waiting["id"])).out
    assert "cron_scheduler  2 per 3600 s  0" in shell("budgets", "list").out


def test_retries_that_an_outage_held_up_are_spread_and_say_so(
    start: Starter, tmp_path: Path
) -> None:
    shell, jobs = Shell(tmp_path), failing(tmp_path, schedules=5)
    up = start(jobs, CRON_RETRY_DELAY_MS="3600000", CRON_RETRY_BUDGET="off")
    up.until("(Scheduling retry .*){5}")
    assert up.end() == 0
    before = "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-4 hours')"
    with sqlite3.connect(tmp_path / "cronhare.sqlite3") as ledger:  # hours pass
        ledger.execute(
            f"UPDATE SchedulerExecution SET next_attempt_at = {before}, check_at = {before} "
            "WHERE state = 'retrying'"
        )

    jobs.write_text(jobs.read_text().replace("on_start = true", ""))

    up = start(jobs, CRON_RETRY_BUDGET="2", CRON_RETRY_BUDGET_WINDOW_SECONDS="3600")
    log = up.until("(Task execution failed.*){2}")

    assert log.count("An outage held up retries: they start as the retry budget of queue") == 1
    seen = shell("executions", "list", "--json").json()
    deferred = [one for one in seen if "deferred: an outage" in (one["last_error"] or "")]
    assert [(one["state"], one["attempt"]) for one in deferred] == [("retrying", 2)] * 3
    told = shell("explain", str(deferred[0]["id"])).out
    assert "the retry budget of queue cron_scheduler, 2 per 3600 s, is spent" in told


def test_a_breaker_opens_lets_one_probe_through_and_closes(start: Starter, tmp_path: Path) -> None:
    shell, jobs = Shell(tmp_path), failing(tmp_path, schedules=6)
    breaker = {"CRON_CIRCUIT_BREAKER_MIN_ATTEMPTS": "4", "CRON_CIRCUIT_BREAKER_PAUSE_SECONDS": "1"}

    up = start(jobs, CRON_CIRCUIT_BREAKER="on", **breaker, **RETRIES)
    up.until("Circuit breaker of sync is open until .*: 4 of 4 attempts failed")
    log = up.until("is closed: its probe succeeded")

    assert log.count("is half open: a retry of execution") == 1
    failed = shell("failed", "list", "--json").json()
    assert {one["failed_reason"] for one in failed} == {"Circuit breaker activated"}
    assert len(failed) == 5
    [seen] = shell("breakers", "list", "--json").json()
    assert (seen["task_name"], seen["state"], seen["failures"]) == ("sync", "closed", 0)
    assert "counts anew; it was closed" in shell("breakers", "reset", "sync").out
    assert shell("breakers", "reset", "sync").status == 2
