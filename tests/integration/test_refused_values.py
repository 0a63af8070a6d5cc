"""Values that the database itself refuses: the one they belong to is set apart, no other waits."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from cronhare.adapters.memory.bell import SilentBell
from cronhare.adapters.sql.attempts import starts
from cronhare.adapters.sql.database import Database
from cronhare.adapters.sql.isolation import set_apart
from cronhare.application.administration.commands import Administrator
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.failure_filter import UNRESOLVED, FailureFilter
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import ReplayState
from cronhare.domain.messages.messages import TaskMessage
from cronhare.domain.retries.retry import Complete, RetryPolicy
from cronhare.domain.schedules.boot import Boot
from cronhare.entrypoints.processes.worker import run_at_start, run_for
from cronhare.ports.attempts import Finish, Refused
from cronhare.ports.errors import LedgerOutdated, LedgerRefused, LedgerUnavailable
from cronhare.ports.records import Retention
from cronhare.ports.runner import AttemptResult, Captured
from tests.integration.ledgers import (
    GRACES,
    LEASE,
    MINUTE,
    SECOND,
    SUCCESS,
    Ledger,
    Shell,
    draft,
)
from tests.integration.rules import SAYS, Refusing, all_started, some, start_all, states
from tests.ports import ids_of

DAY = timedelta(days=1)


@pytest.fixture
def ledger(database_ledger: Ledger) -> Ledger:
    return database_ledger


def test_of_leases_the_one_that_is_refused_is_let_go(ledger: Ledger, shell: Shell) -> None:
    started = all_started(ledger, some(ledger))
    broken = started[1]
    largest = 2**63 - 1  # SQLite would go on in floating point numbers
    shell(
        f"UPDATE SchedulerExecution SET version = {min(largest, 2**31 - 1)} WHERE id = {broken.id}"
    )

    ids = [one.id for one in started]
    renewal = ledger.attempts.renew(ids, now=ledger.now, node="ant", lease=LEASE * 2)

    assert renewal.held >= {one.id for one in started if one is not broken}
    assert {ledger.seen(one).lease_until for one in started if one is not broken} == {
        ledger.now + LEASE * 2
    }


def test_of_schedules_the_one_whose_runs_are_refused_is_left_out(
    ledger: Ledger, refusing: Refusing
) -> None:
    ids = [ledger.add(f"report-{number}") for number in range(5)]
    ledger.clock.advance(MINUTE)
    claimed: list[int] = []
    problems: list[tuple[str, str]] = []
    more = True

    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {ids[2]}"):
        while more:
            batch = ledger.claim_due()
            claimed += [one.scheduler_id for one in batch.claimed]
            problems += batch.problems
            more = batch.more

    assert sorted(claimed) == [id_ for id_ in ids if id_ != ids[2]]
    [(name, problem)] = problems
    assert name == "report-2"
    assert SAYS in problem
    ledger.clock.advance(MINUTE)
    assert ids[2] in {one.scheduler_id for one in ledger.claim_due().claimed}


def test_of_edits_the_one_whose_plan_is_refused_keeps_no_other_waiting(
    ledger: Ledger, refusing: Refusing
) -> None:
    ledger.save(*(draft(f"report-{number}") for number in range(5)))
    broken = ids_of(ledger.schedules, ["report-2"])["report-2"]
    when = f"NEW.scheduler_id = {broken} AND NEW.problem IS NULL"

    with refusing("SchedulerPlan", "INSERT", when):
        more = True
        while more:
            more = ledger.plan_edited().more
    ledger.clock.advance(MINUTE)

    assert len(ledger.claim_due().claimed) == 4


def test_a_message_whose_row_is_refused_is_refused(ledger: Ledger, refusing: Refusing) -> None:
    id_ = ledger.add()
    message = TaskMessage(scheduler_id=id_, type="report", id=25, params_scheduler="{}")

    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {id_}"):
        answer = ledger.attempts.adopt(
            message, key="manual-x", queue="cron_scheduler", deaths=0, now=ledger.now, node="ant"
        )

    assert isinstance(answer, Refused)
    assert SAYS in answer.reason


def test_what_another_table_holds_fast_does_not_keep_the_cleanup_from_the_rest(
    ledger: Ledger, shell: Shell
) -> None:
    found = some(ledger)
    for one in found:
        ledger.succeeded(one)
    shell(
        "CREATE TABLE Invoice (execution_id BIGINT, "
        "FOREIGN KEY (execution_id) REFERENCES SchedulerExecution (id))"
    )
    try:
        shell(f"INSERT INTO Invoice VALUES ({found[2].id})")
        ledger.clock.advance(DAY * 400)
        deleted = ledger.records.clean_up(now=ledger.now, retention=Retention())
    finally:
        shell("DROP TABLE Invoice")

    assert deleted == 4
    assert [one.id for one in ledger.executions()] == [found[2].id]


def test_what_was_put_back_by_hand_begins_anew_with_its_row_and_its_output(
    ledger: Ledger, shell: Shell
) -> None:
    said = AttemptResult(outcome=SUCCESS.outcome, stdout=Captured(head="once", bytes=4))
    found = some(ledger)
    back = ledger.finished(found[0], Complete(), said)
    shell(
        "UPDATE SchedulerExecution SET state = 'published', finished_at = NULL "
        f"WHERE id = {back.id}"
    )

    started = all_started(ledger, found)
    [begun] = ledger.records.attempts(back.id)
    again = AttemptResult(outcome=SUCCESS.outcome, stdout=Captured(head="twice", bytes=5))
    finishes = [Finish(execution=one, ran=again, verdict=Complete()) for one in started]
    answers = ledger.attempts.finish(finishes, now=ledger.now, node="ant")

    assert len(started) == 5
    assert (begun.ending, begun.finished_at, begun.node) == (None, None, "ant")
    assert answers == [State.SUCCEEDED] * 5
    assert [output.stdout.head for output in ledger.records.output(back.id)] == ["twice"]


def test_of_edits_none_is_made_where_one_is_refused(ledger: Ledger, refusing: Refusing) -> None:
    ledger.save(draft("changed"), draft("gone"), draft("unnamed"))
    before = ledger.schedules.schedules()
    wanted = [draft("changed", params='{"v":2}'), draft("new")]

    with (
        refusing("Scheduler", "UPDATE", "NEW.status = 0"),
        pytest.raises(LedgerRefused, match=SAYS),
    ):
        ledger.schedules.save(
            wanted,
            source=None,
            now=ledger.now + MINUTE,
            task_names={"unnamed": "backup"},
            disabled=["gone"],
        )

    assert ledger.schedules.schedules() == before


def test_a_run_that_is_refused_keeps_no_other_from_a_start_or_a_boot(
    ledger: Ledger, refusing: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    refused, _ = (ledger.add(name, schedule=None) for name in ("refused", "fine"))
    ledger.clock.advance(MINUTE)
    administrator = Administrator(
        schedules=ledger.schedules,
        records=ledger.records,
        names=ledger.asked,
        node="ant",
        uuid=uuid4,
        policy=RetryPolicy(),
        bell=SilentBell(),
        trail=ledger.trail,
    )
    names = ("unknown", "refused", "fine")

    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {refused}"):
        run_at_start(administrator, names, now=ledger.now)
        run_for(Boot("one", ago=1), administrator, names, now=ledger.now)

    assert [row.schedule_name for row in ledger.executions()] == ["fine", "fine"]
    told = [line for line in caplog.messages if "cannot run at" in line]
    assert [SAYS in line for line in told] == [False, True, False, True]


@pytest.mark.parametrize("edited", [False, True])
def test_of_plans_one_that_cannot_be_written_at_all_stops_no_other(
    ledger: Ledger, refusing: Refusing, *, edited: bool
) -> None:
    ids = [ledger.add(f"report-{number}") for number in range(5)]
    ledger.clock.advance(MINUTE)
    if edited:
        ledger.save(*(draft(f"report-{number}", schedule="*/1 * * * *") for number in range(5)))
    claimed: list[int] = []

    with refusing("SchedulerPlan", "UPDATE", f"NEW.scheduler_id = {ids[2]}"):
        if edited:
            while ledger.plan_edited().more:
                pass
            ledger.clock.advance(MINUTE)
        for _ in range(5):
            claimed += [one.scheduler_id for one in ledger.claim_due().claimed]

    assert sorted(claimed) == [id_ for id_ in ids if id_ != ids[2]]


def test_a_plan_without_a_schedule_that_cannot_be_dropped_stops_no_other(
    ledger: Ledger, refusing: Refusing, shell: Shell, database: str
) -> None:
    ids = [ledger.add(f"report-{number}") for number in range(3)]
    ledger.clock.advance(MINUTE)
    if database == "sqlite":  # the others refer to no schedule
        shell("PRAGMA foreign_keys = OFF")
    shell(f"DELETE FROM Scheduler WHERE id = {ids[0]}")
    claimed: list[int] = []

    with refusing("SchedulerPlan", "DELETE", f"OLD.scheduler_id = {ids[0]}"):
        for _ in range(3):
            claimed += [one.scheduler_id for one in ledger.claim_due().claimed]

    assert sorted(claimed) == ids[1:]


def test_what_another_replica_has_started_is_not_set_apart(
    ledger: Ledger, refusing: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = some(ledger, 2)

    def after_another_has_started_it(*args: Any, still: Callable[[Execution], bool]) -> None:  # noqa: ANN401
        ledger.started(found[0], node="bee")
        set_apart(*args, still=still)

    monkeypatch.setattr(starts, "set_apart", after_another_has_started_it)
    when = f"NEW.node = 'ant' AND NEW.execution_id = {found[0].id}"
    with refusing("ExecutionAttempt", "INSERT", when):
        answers = start_all(ledger, found)

    assert [type(one) for one in answers] == [Refused, Execution]
    assert states(ledger, found) == [State.RUNNING] * 2
    assert ledger.seen(found[0]).owner == "bee"


def test_a_column_of_ours_that_is_gone_is_an_old_schema_and_no_fault_of_a_row(
    ledger: Ledger, shell: Shell
) -> None:
    started = all_started(ledger, some(ledger, 2))
    finishes = [Finish(execution=one, ran=SUCCESS, verdict=Complete()) for one in started]
    shell("ALTER TABLE ExecutionAttempt RENAME COLUMN cpu_seconds TO cpu")
    try:
        with pytest.raises(LedgerOutdated, match=r"cpu_seconds.*run `cronhare db upgrade`"):
            ledger.attempts.finish(finishes, now=ledger.now, node="ant")
        with pytest.raises(LedgerOutdated, match=r"cpu_seconds.*run `cronhare db upgrade`"):
            ledger.records.attempts(started[0].id)
    finally:
        shell("ALTER TABLE ExecutionAttempt RENAME COLUMN cpu TO cpu_seconds")

    assert states(ledger, started) == [State.RUNNING] * 2


def test_of_ends_the_one_that_refuses_every_change_is_passed_over_and_told(
    ledger: Ledger, refusing: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    broken, innocent = ledger.failed("broken"), ledger.failed("innocent")
    ends = [one.ticket for one in (broken, innocent)]
    ledger.clock.advance(GRACES.ended)

    with refusing("FailedTask", "UPDATE", f"NEW.id = {broken.id}"):
        found = ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=9)
        ledger.claims.mark_ends_published(ends)
    ledger.clock.advance(DAY)
    left = ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=9)

    assert [one.id for one in found] == [innocent.id]
    assert [one.id for one in left] == [broken.id]
    [told] = [line for line in caplog.messages if line.startswith("Ends for good")]
    assert SAYS in told


def dispatched(ledger: Ledger) -> list[str]:
    """Claim what has just become due as the dispatcher does; give the names."""
    names, more = [], True
    while more:
        batch = ledger.claims.claim_due(
            now=ledger.now,
            limit=1_000,
            node="ant",
            planner=ledger.planner,
            since=ledger.now - MINUTE,
        )
        names += [one.schedule_name for one in batch.claimed]
        more = batch.more
    return sorted(names)


def test_very_many_whose_runs_are_refused_are_divided_once_a_minute(
    ledger: Ledger, refusing: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [f"broken-{number:02}" for number in range(40)]
    ledger.save(*map(draft, broken), draft("sound"))
    ledger.plan_edited()
    last = max(ids_of(ledger.schedules, broken).values())
    ledger.clock.advance(MINUTE)
    written: list[str] = []
    write = Database.write

    def counted(database: Database, doing: str) -> AbstractContextManager[Connection]:
        written.append(doing)
        return write(database, doing)

    monkeypatch.setattr(Database, "write", counted)
    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id <= {last}"):
        first = dispatched(ledger)
        divided = len(written)
        ledger.clock.advance(SECOND)
        second = dispatched(ledger)
    ledger.clock.advance(MINUTE)

    assert (first, second) == (["sound"], [])
    assert divided < 4 * len(broken)
    assert len(written) - divided == 1
    assert {one.schedule_name for one in ledger.claim_due().claimed} >= {*broken, "sound"}


def test_one_that_was_refused_and_is_edited_is_claimed_at_once(
    ledger: Ledger, refusing: Refusing
) -> None:
    id_ = ledger.add()
    ledger.clock.advance(MINUTE + 30 * SECOND)
    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {id_}"):
        refused = dispatched(ledger)
    ledger.save(draft(params='{"v":2}'))
    ledger.plan_edited()
    ledger.clock.advance(30 * SECOND)

    assert (refused, dispatched(ledger)) == ([], ["report"])


def test_a_page_of_which_no_plan_can_be_written_is_an_outage(
    ledger: Ledger, refusing: Refusing
) -> None:
    ledger.save(*(draft(f"report-{number}") for number in range(9)))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)

    with (
        refusing("SchedulerPlan", "UPDATE", "1 = 1"),
        pytest.raises(LedgerUnavailable, match=SAYS),
    ):
        ledger.claim_due(limit=4)


@pytest.mark.parametrize(
    ("table", "event", "when"),
    [
        ("ReplayItem", "INSERT", "NEW.archived_id = {broken.id}"),
        ("SchedulerExecution", "UPDATE", "NEW.id = {broken.execution_id}"),
    ],
)
def test_a_replay_of_which_something_is_refused_stops_alone_and_can_go_on(
    ledger: Ledger, refusing: Refusing, table: str, event: str, when: str
) -> None:
    broken, innocent = ledger.failed("broken"), ledger.failed("innocent")
    refused, _ = (
        ledger.replays.order(
            ReplayOrder(which=FailureFilter(schedule=one.schedule_name)), now=ledger.now
        )
        for one in (broken, innocent)
    )

    with refusing(table, event, when.format(broken=broken)):
        stopped = ledger.advanced()
        [begun] = ledger.advanced().executions
    ledger.replays.resume(refused.id, now=ledger.now)
    [resumed] = ledger.advanced().executions

    assert (stopped.replay.id, stopped.replay.state) == (refused.id, ReplayState.STOPPED)
    assert SAYS in str(stopped.replay.reason)
    assert list(stopped.executions) == []
    assert (begun.id, resumed.id) == (innocent.execution_id, broken.execution_id)


def test_a_replay_that_cannot_even_be_stopped_keeps_no_other_waiting(
    ledger: Ledger, refusing: Refusing
) -> None:
    ledger.failed()
    refused, other = [
        ledger.replays.order(ReplayOrder(which=UNRESOLVED), now=ledger.now) for _ in range(2)
    ]

    with refusing("Replay", "UPDATE", f"NEW.id = {refused.id}"):
        with pytest.raises(LedgerRefused, match=SAYS):
            ledger.advanced()
        assert ledger.advanced().replay.id == other.id
    ledger.clock.advance(MINUTE)

    assert ledger.advanced().replay.id == refused.id
