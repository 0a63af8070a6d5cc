"""A retry budget and a circuit breaker, as `cronhare up` keeps them."""

import re
import sqlite3
from pathlib import Path

import pytest

from tests.integration.shell import Shell
from tests.integration.test_up import Starter, start

__all__ = ["start"]

pytestmark = pytest.mark.integration

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
