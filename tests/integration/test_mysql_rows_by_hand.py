"""Rows that people write into the users' table, in sessions of their own."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import pymysql.cursors
import pytest
from sqlalchemy import URL

from cronhare.adapters.memory.clock import FrozenClock
from cronhare.domain.task import TaskRef
from cronhare.ports.claims import Batch
from tests.integration.ledgers import MINUTE, Ledger, draft
from tests.services.mariadb import connect

pytestmark = pytest.mark.integration

Shell: TypeAlias = pymysql.cursors.Cursor


@pytest.fixture
def clock() -> FrozenClock:
    """Edits by hand have the server's time, so the test has it, too."""
    return FrozenClock(datetime.now(UTC))


@pytest.fixture
def ledger(mysql: Ledger) -> Ledger:
    mysql.plan_edited()
    return mysql


@pytest.fixture
def shell(migrated_mysql: URL) -> Iterator[Shell]:
    """An operator's session, with the server's own settings. Commits by itself."""
    with closing(connect(migrated_mysql)) as session, session.cursor() as cursor:
        yield cursor


def test_the_seeds_runbook_is_an_edit(ledger: Ledger, shell: Shell) -> None:
    ledger.add(status=False)
    [before] = ledger.schedules.schedules()

    shell.execute(
        'UPDATE Scheduler SET status = 1, params = \'{"fixed": "configuration"}\' WHERE id = %s',
        (before.id,),
    )

    [after] = ledger.schedules.schedules()
    assert (before.planned, after.planned) == (True, False)
    assert after.updated_at > before.updated_at
    assert after.draft is not None
    assert (after.draft.status, after.draft.params) == (True, '{"fixed": "configuration"}')
    assert ledger.claims.plan_edited(
        now=ledger.now,
        since=ledger.now - timedelta(seconds=5),
        limit=9,
        node="ant",
        planner=ledger.planner,
    ) == Batch(looked=1)


@pytest.mark.parametrize("zone", ["+05:30", "-08:00", "SYSTEM"])
def test_an_edit_has_the_time_of_utc_whatever_the_sessions_zone_is(
    ledger: Ledger, shell: Shell, zone: str
) -> None:
    ledger.add()
    shell.execute("SET time_zone = %s", (zone,))

    shell.execute("UPDATE Scheduler SET schedule = '*/2 * * * *' WHERE name = 'report'")

    [stored] = ledger.schedules.schedules()
    assert abs(stored.updated_at - datetime.now(UTC)) < MINUTE


def test_every_one_of_many_quick_updates_is_noticed(ledger: Ledger, shell: Shell) -> None:
    ledger.add()

    seen = set()
    for number in range(300):
        shell.execute("UPDATE Scheduler SET user_id = %s WHERE name = 'report'", (number,))
        shell.execute("SELECT updated_at FROM Scheduler WHERE name = 'report'")
        seen.add(shell.fetchone())

    assert len(seen) == 300


def test_our_own_edits_keep_the_time_of_the_ledgers_clock(ledger: Ledger) -> None:
    ledger.add()
    ledger.clock.advance(timedelta(hours=1))

    ledger.schedules.save([draft(schedule="5 * * * *")], source=None, now=ledger.now)

    assert [row.updated_at for row in ledger.schedules.schedules()] == [ledger.now]


def test_a_hand_made_row_is_a_schedule(ledger: Ledger, shell: Shell) -> None:
    shell.execute("INSERT INTO Scheduler (schedule, status, report_id) VALUES ('0 8 * * *', 1, 25)")
    name = f"#{shell.lastrowid}"

    [stored] = ledger.schedules.schedules([name])
    batch = ledger.plan_edited()

    assert stored.draft is not None
    assert (stored.name, stored.draft.task) == (name, TaskRef("report", 25))
    assert stored.created_at == stored.updated_at
    assert batch == Batch(looked=1)


def test_other_peoples_columns_outlive_our_edits(ledger: Ledger, shell: Shell) -> None:
    ledger.add()
    shell.execute("UPDATE Scheduler SET user_id = 7, stay_alive = 1")

    ledger.schedules.save([draft(task=TaskRef("worker", 3))], source=None, now=ledger.now)

    shell.execute(
        "SELECT user_id, stay_alive, report_id, worker_id FROM Scheduler WHERE name = 'report'"
    )
    assert shell.fetchall() == ((7, 1, None, 3),)


BROKEN = [
    ("schedule = '61 * * * *'", "schedule"),
    ("timezone = 'Mars/Olympus'", "timezone"),
    ("schedule = NULL, date_time = '0000-00-00'", "date_time: '0000-00-00 00:00:00.000000' is not"),
    ("schedule = NULL, date_time = '2026-02-31'", "is not a time"),
    ("params = '{'", "params: not JSON"),
    ("params = CONCAT('[', REPEAT('\"\",', 4000000), '1]')", "params: "),
    ("report_id = NULL", "one of report_id, worker_id, reminder_id, event_id"),
    ("retry = 'never'", "retry: not JSON"),
    ("misfire_policy = 'perhaps'", "misfire_policy"),
    ("timeout_ms = 9223372036854775807", "timeout_ms"),
    ("updated_at = '0000-00-00'", "updated_at: '0000-00-00 00:00:00.000000' is no time"),
]


@pytest.mark.parametrize(("change", "problem"), BROKEN)
def test_a_broken_row_is_told_once_and_the_others_run(
    ledger: Ledger, shell: Shell, change: str, problem: str
) -> None:
    ledger.add("broken")
    ledger.add("sound")
    shell.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
    shell.execute(f"UPDATE Scheduler SET {change} WHERE name = 'broken'")
    ledger.clock.advance(MINUTE)

    first, second = ledger.claim_due(), ledger.claim_due()

    assert [one.schedule_name for one in first.claimed] == ["sound"]
    [(name, said)] = first.problems
    assert name == "broken"
    assert problem in said
    assert second == Batch()
    assert ledger.plan_edited() == Batch()
    [stored] = ledger.schedules.schedules(["broken"])
    assert (stored.draft, stored.problem, stored.next_due_at) == (None, said, None)


def test_a_schedule_that_is_deleted_leaves_its_history_and_runs_no_more(
    ledger: Ledger, shell: Shell
) -> None:
    execution = ledger.succeeded(ledger.claimed())
    ledger.add("deleted")
    ledger.clock.advance(MINUTE)

    shell.execute("DELETE FROM Scheduler WHERE system_id IS NULL")
    batch = ledger.claim_due()

    assert (batch.claimed, ledger.claim_due()) == ((), Batch())
    assert ledger.seen(execution).schedule_name == f"#{execution.scheduler_id}"
    assert [one.id for one in ledger.executions()] == [execution.id]


def test_history_that_is_deleted_takes_its_attempts_along_and_leaves_the_archive(
    ledger: Ledger,
    shell: Shell,
) -> None:
    archived = ledger.failed()

    shell.execute("DELETE FROM SchedulerExecution WHERE id = %s", (archived.execution_id,))

    shell.execute("SELECT count(*) FROM ExecutionAttempt")
    assert shell.fetchone() == (0,)
    assert ledger.records.archive() == [archived]
