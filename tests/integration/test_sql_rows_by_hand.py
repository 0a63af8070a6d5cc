"""Rows that people and other programs write into the users' table."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cronhare.domain.execution import Execution, State
from cronhare.domain.planning import Plan, Planned
from cronhare.domain.task import TaskRef
from cronhare.ports.attempts import Refused, Start
from cronhare.ports.claims import Batch
from tests.integration.ledgers import LEASE, MINUTE, Ledger, draft


@pytest.fixture
def shell(sqlite: Ledger, tmp_path: Path) -> Iterator[sqlite3.Connection]:  # noqa: ARG001 - it made the file
    """What an operator has open beside the running system. Commits by itself."""
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
        yield connection


@pytest.fixture
def ledger(sqlite: Ledger) -> Ledger:
    sqlite.plan_edited()
    return sqlite


def updated_at(shell: sqlite3.Connection, name: str = "report") -> str:
    [text] = shell.execute("SELECT updated_at FROM Scheduler WHERE name = ?", [name]).fetchone()
    return str(text)


def test_a_plain_update_is_an_edit(ledger: Ledger, shell: sqlite3.Connection) -> None:
    ledger.add(status=False)
    [before] = ledger.schedules.schedules()

    shell.execute(
        """UPDATE Scheduler SET status = 1, params = '{"n": 2}' WHERE id = ?""", [before.id]
    )

    [after] = ledger.schedules.schedules()
    assert (before.planned, after.planned) == (True, False)
    assert after.updated_at > before.updated_at
    assert after.draft is not None
    assert (after.draft.status, after.draft.params) == (True, '{"n": 2}')
    assert ledger.plan_edited().looked == 1


def test_every_one_of_many_quick_updates_is_noticed(
    ledger: Ledger, shell: sqlite3.Connection
) -> None:
    ledger.add()

    seen = set()
    for number in range(300):
        shell.execute("UPDATE Scheduler SET user_id = ? WHERE name = 'report'", [number])
        seen.add(updated_at(shell))

    assert len(seen) == 300
    assert {len(text) for text in seen} == {len("2026-03-02 12:00:00.000000")}


def test_our_own_edits_keep_the_time_of_the_ledgers_clock(
    ledger: Ledger, shell: sqlite3.Connection
) -> None:
    ledger.add()
    ledger.clock.advance(MINUTE)

    ledger.schedules.save([draft(schedule="5 * * * *")], source=None, now=ledger.now)

    assert updated_at(shell) == "2026-03-02 12:01:00.000000"


def test_a_hand_made_row_is_a_schedule(ledger: Ledger, shell: sqlite3.Connection) -> None:
    shell.execute(
        "INSERT INTO Scheduler (id, schedule, status, report_id) VALUES (16, '0 8 * * *', 1, 25)"
    )

    [stored] = ledger.schedules.schedules(["#16"])
    batch = ledger.plan_edited()

    assert stored.draft is not None
    assert (stored.name, stored.draft.task) == ("#16", TaskRef("report", 25))
    assert stored.created_at == stored.updated_at
    assert batch == Batch(looked=1)
    assert ledger.schedules.ids(["#16", "#17"]) == {"#16": 16}


def test_other_peoples_columns_outlive_our_edits(ledger: Ledger, shell: sqlite3.Connection) -> None:
    ledger.add()
    shell.execute("UPDATE Scheduler SET user_id = 7, stay_alive = 1")

    ledger.schedules.save([draft(task=TaskRef("worker", 3))], source=None, now=ledger.now)

    kept = shell.execute(
        "SELECT user_id, stay_alive, report_id, worker_id FROM Scheduler WHERE name = 'report'"
    )
    assert kept.fetchone() == (7, 1, None, 3)


BROKEN = [
    ("schedule = '61 * * * *'", "schedule"),
    ("schedule = '0 0 30 2 *'", "never fires"),
    ("timezone = 'Mars/Olympus'", "timezone"),
    ("date_time = '2026-12-12 08:00:00'", "not both"),
    ("schedule = NULL, date_time = 'tomorrow'", "date_time: 'tomorrow' is not a time"),
    ("params = '{'", "params: not JSON"),
    ("params = x'00'", "params: "),
    ("params = 'NaN'", "params: not JSON"),
    ("report_id = NULL", "one of report_id, worker_id, reminder_id, event_id"),
    ("worker_id = 3", "one of report_id, worker_id, reminder_id, event_id"),
    ("params = '\"' || hex(zeroblob(60000)) || '\"'", "params: 120002 bytes of JSON"),
    ("report_id = 'many'", "report_id: 'many' is no task's number"),
    ("report_id = -1", "report_id: -1 is no task's number"),
    ("retry = '{\"attempts\": 99}'", "SCHEDULE_RETRY_POLICY_INVALID"),
    ("retry = 'never'", "retry: not JSON"),
    ("misfire_policy = 'perhaps'", "misfire_policy"),
    ("misfire_window_ms = 'long'", "misfire_window_ms: 'long' is not a whole number"),
    ("misfire_window_ms = -1", "misfire_window_ms: -1"),
    ("timeout_ms = 9223372036854775807", "timeout_ms"),
    ("misfire_cap = 0.5", "misfire_cap"),
    ("overlap_policy = 'maybe'", "overlap_policy"),
    ("jitter_ms = -5", "jitter_ms: -5"),
    ("starts_at = '2026-04-01', ends_at = '2026-03-01'", "ends_at"),
    ("schedule = CAST(x'ff2a' AS TEXT)", "schedule"),
    ("queue = 7.5, timezone = CAST(x'ff' AS TEXT)", "timezone"),
    ("updated_at = 'yesterday'", "updated_at: 'yesterday' is no time"),
]


@pytest.mark.parametrize(("change", "problem"), BROKEN)
def test_a_broken_row_is_told_once_and_the_others_run(
    ledger: Ledger, shell: sqlite3.Connection, change: str, problem: str
) -> None:
    ledger.add("broken")
    ledger.add("sound")
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


def test_a_broken_row_runs_again_once_it_is_mended(
    ledger: Ledger, shell: sqlite3.Connection
) -> None:
    ledger.add()
    shell.execute("UPDATE Scheduler SET schedule = 'broken' WHERE name = 'report'")
    broken = ledger.plan_edited()

    shell.execute("UPDATE Scheduler SET schedule = '* * * * *' WHERE name = 'report'")
    mended = ledger.plan_edited()

    [stored] = ledger.schedules.schedules()
    assert (len(broken.problems), mended.problems) == (1, ())
    assert stored.next_due_at is not None


def test_a_planner_that_fails_for_one_row_does_not_stop_the_others(ledger: Ledger) -> None:
    ledger.add("odd")
    ledger.add("sound")
    ledger.clock.advance(MINUTE)

    def planner(planned: Planned) -> Plan:
        if planned.schedule.name == "odd":
            raise ZeroDivisionError("by chance")
        return ledger.planner(planned)

    batch = ledger.claims.claim_due(now=ledger.now, limit=9, node="ant", planner=planner)

    assert [one.schedule_name for one in batch.claimed] == ["sound"]
    assert batch.problems == (("odd", "ZeroDivisionError: by chance"),)


def test_a_schedule_that_was_deleted_past_the_foreign_keys_is_forgotten(
    ledger: Ledger, shell: sqlite3.Connection
) -> None:
    ledger.add()
    ledger.clock.advance(MINUTE)
    shell.execute("DELETE FROM Scheduler WHERE name = 'report'")

    batch = ledger.claim_due()

    assert (batch.claimed, ledger.claim_due()) == ((), Batch())
    assert ledger.claims.next_due() != ledger.now


def test_plans_that_somebody_dropped_are_made_again_wherever_the_search_stands(
    ledger: Ledger, shell: sqlite3.Connection
) -> None:
    ledger.save(*(draft(f"job-{n}") for n in range(5)))

    def page() -> int:
        return ledger.claims.plan_edited(
            now=ledger.now, since=None, limit=2, node="ant", planner=ledger.planner
        ).looked

    first = page()
    shell.execute("DELETE FROM SchedulerPlan")  # the first page's too, and the cleanup's
    following = [page() for _ in range(4)]

    assert (first, sum(following)) == (2, 6)
    assert all(stored.planned for stored in ledger.schedules.schedules())


def test_two_messages_for_one_attempt_in_one_batch_start_it_once(ledger: Ledger) -> None:
    execution = ledger.claimed()
    wish = Start(execution_id=execution.id, attempt=1, deaths=0)

    first, second = ledger.attempts.start([wish, wish], now=ledger.now, node="ant", lease=LEASE)

    assert isinstance(first, Execution)
    assert isinstance(second, Refused)


def test_history_that_is_deleted_takes_its_attempts_along_and_leaves_the_archive(
    ledger: Ledger, shell: sqlite3.Connection
) -> None:
    archived = ledger.failed()
    shell.execute("PRAGMA foreign_keys = ON")

    shell.execute("DELETE FROM SchedulerExecution WHERE id = ?", [archived.execution_id])

    [count] = shell.execute("SELECT count(*) FROM ExecutionAttempt").fetchone()
    assert count == 0
    assert ledger.records.archive() == [archived]


def test_a_message_with_an_impossible_number_is_refused(ledger: Ledger) -> None:
    execution = ledger.claimed()

    assert ledger.records.execution(10**30) is None
    assert ledger.records.cancel(-1, now=ledger.now) is None
    assert ledger.seen(execution).state is State.CLAIMED
