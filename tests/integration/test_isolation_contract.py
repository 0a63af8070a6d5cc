"""One row that the database refuses, that somebody keeps locked or has spoilt: the others go on."""

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.records.inspection import SqlInspection
from cronhare.domain.execution import Execution, Graces, State
from cronhare.domain.lifecycle.archive import UNRESOLVED, FailureFilter
from cronhare.domain.lifecycle.orders import ReplayOrder, ReplayState
from cronhare.domain.lifecycle.retry_limits import Limited
from cronhare.domain.messages import TaskMessage
from cronhare.domain.retries.retry import Complete, Quarantine
from cronhare.ports import LedgerRefused, LedgerUnavailable
from cronhare.ports.attempts import Finish, Refused
from cronhare.ports.inspection import LedgerFacts
from cronhare.ports.runner import Captured
from tests.integration.conftest import ON_SERVERS
from tests.integration.ledgers import (
    DAY,
    FOR_GOOD,
    GRACES,
    HOUR,
    LEASE,
    LOSS,
    MINUTE,
    SECOND,
    SUCCESS,
    Ledger,
    Shell,
    draft,
)
from tests.integration.rules import (
    SAYS,
    Holding,
    Refusing,
    all_started,
    apart,
    claim_all,
    holding_in,
    some,
)
from tests.ports import ids_of

Ids = Collection[int]


@attrs.frozen(kw_only=True)
class Operation:
    """A call that writes many executions, and tells which of them are written."""

    run: Callable[[Ledger, Sequence[Execution]], Ids]
    started: bool = False
    change: str = ""


def start(ledger: Ledger, found: Sequence[Execution]) -> Ids:
    return {one.id for one in all_started(ledger, list(found))}


def ids_in(ledger: Ledger, found: Sequence[Execution], state: State) -> Ids:
    return {one.id for one in found if ledger.seen(one).state is state}


def finish(ledger: Ledger, found: Sequence[Execution]) -> Ids:
    ledger.finish_all(found, Complete(), SUCCESS)
    return ids_in(ledger, found, State.SUCCEEDED)


def give_up(ledger: Ledger, found: Sequence[Execution]) -> Ids:
    finishes = [Finish(execution=one, ran=LOSS, verdict=FOR_GOOD) for one in found]
    ledger.attempts.give_up(finishes, now=ledger.now)
    return ids_in(ledger, found, State.FAILED)


def renew(ledger: Ledger, found: Sequence[Execution]) -> Ids:
    ids = [one.id for one in found]
    return ledger.attempts.renew(ids, now=ledger.now, node="ant", lease=LEASE).held


def mark_published(ledger: Ledger, found: Sequence[Execution]) -> Ids:
    ledger.claims.mark_published(found, now=ledger.now)
    return ids_in(ledger, found, State.PUBLISHED)


def hand_over(ledger: Ledger, found: Sequence[Execution]) -> Ids:
    try:
        ledger.claims.hand_over(found, now=ledger.now)
    except LedgerUnavailable as error:
        if "keeps rows" not in str(error):
            raise
    return ids_in(ledger, found, State.HANDED_OVER)


def overdue(ledger: Ledger, found: Sequence[Execution]) -> Ids:
    ledger.clock.advance(24 * HOUR)
    taken = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=len(found))
    return {one.id for one in taken}


def end_waiting(ledger: Ledger, found: Sequence[Execution]) -> Ids:
    ledger.claims.end_waiting(now=ledger.now, limit=100)
    return ids_in(ledger, found, State.CANCELLED)


OPERATIONS = {
    "start": Operation(run=start),
    "finish": Operation(run=finish, started=True),
    "give up": Operation(run=give_up, started=True),
    "renew": Operation(run=renew, started=True),
    "mark published": Operation(run=mark_published),
    "hand over": Operation(run=hand_over),
    "overdue": Operation(run=overdue),
    "end waiting": Operation(run=end_waiting, change="cancel_requested = 1"),
}

each_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


@pytest.fixture
def ledger(database_ledger: Ledger) -> Ledger:
    return database_ledger


#: The databases whose rows people can hold.
on_servers = pytest.mark.parametrize("database", ON_SERVERS, indirect=True)


@pytest.fixture
def holding(database: str, request: pytest.FixtureRequest) -> Holding:
    return holding_in(request.getfixturevalue(f"migrated_{database}"))


def row_of(execution: Execution) -> str:
    return f"SELECT id FROM SchedulerExecution WHERE id = {execution.id} FOR UPDATE"


def prepared(ledger: Ledger, shell: Shell, operation: Operation) -> list[Execution]:
    """Make executions that the operation can write."""
    found = some(ledger)
    if operation.started:
        found = all_started(ledger, found)
    if operation.change:
        ids = ", ".join(str(one.id) for one in found)
        shell(f"UPDATE SchedulerExecution SET {operation.change} WHERE id IN ({ids})")
    return found


@each_operation
def test_the_one_that_is_refused_is_set_apart_and_the_others_go_on(
    ledger: Ledger, shell: Shell, refusing: Refusing, operation: Operation
) -> None:
    found = prepared(ledger, shell, operation)
    bad = found[2]

    with refusing(
        "SchedulerExecution", "UPDATE", f"NEW.id = {bad.id} AND NEW.state <> 'quarantined'"
    ):
        written = operation.run(ledger, found)

    assert {*written} == {one.id for one in found if one is not bad}
    assert SAYS in apart(ledger, bad)
    assert bad.id in {kept.execution_id for kept in ledger.records.archive()}


@on_servers
@each_operation
def test_the_one_that_is_locked_comes_back_in_a_minute_and_the_others_go_on(
    ledger: Ledger, shell: Shell, holding: Holding, operation: Operation
) -> None:
    found = prepared(ledger, shell, operation)
    locked = found[2]

    with holding(row_of(locked)):
        beside = operation.run(ledger, found)
        left = ledger.seen(locked).state
    ledger.clock.advance(MINUTE)
    after = operation.run(ledger, [locked])

    assert ({*beside}, left) == ({one.id for one in found if one is not locked}, locked.state)
    assert locked.id in after


@pytest.mark.parametrize(
    ("table", "event"), [("AttemptOutput", "INSERT"), ("ExecutionAttempt", "UPDATE")]
)
def test_an_end_that_is_refused_is_recorded_as_a_quarantine_that_says_how_it_ended(
    ledger: Ledger, refusing: Refusing, table: str, event: str
) -> None:
    started = all_started(ledger, some(ledger))
    ran = attrs.evolve(SUCCESS, stdout=Captured(head="said", bytes=4))

    with refusing(table, event, f"NEW.execution_id = {started[3].id}"):
        answers = ledger.finish_all(started, Complete(), ran)

    refused = answers[3]
    assert answers.count(State.SUCCEEDED) == 4
    assert isinstance(refused, Limited)
    assert isinstance(refused.verdict, Quarantine)
    assert "it ended (succeeded)" in refused.verdict.reason
    assert SAYS in apart(ledger, started[3])


# What else may be refused


def test_of_schedules_the_one_whose_runs_are_refused_is_left_out(
    ledger: Ledger, refusing: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [ledger.add(f"report-{number}") for number in range(5)]
    ledger.clock.advance(MINUTE)

    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {ids[2]}"):
        claimed = [one.scheduler_id for one in claim_all(ledger)]

    assert claimed == [id_ for id_ in ids if id_ != ids[2]]
    [said] = caplog.messages
    assert said.startswith("Schedule report-2 is passed over for a minute")
    assert SAYS in said
    ledger.clock.advance(MINUTE)
    assert ids[2] in {one.scheduler_id for one in ledger.claim_due().claimed}


def test_a_message_whose_row_is_refused_is_refused(ledger: Ledger, refusing: Refusing) -> None:
    id_ = ledger.add()
    message = TaskMessage(scheduler_id=id_, type="report", id=25, params_scheduler="{}")

    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {id_}"):
        answer = ledger.attempts.adopt(
            message, key="manual-x", queue="cron_scheduler", deaths=0, now=ledger.now, node="ant"
        )

    assert isinstance(answer, Refused)
    assert SAYS in answer.reason


def test_of_edits_none_is_made_where_one_is_refused(ledger: Ledger, refusing: Refusing) -> None:
    ledger.save(draft("changed"), draft("gone"))
    before = ledger.schedules.schedules()
    wanted = [draft("changed", params='{"v":2}'), draft("new")]

    with (
        refusing("Scheduler", "UPDATE", "NEW.status = 0"),
        pytest.raises(LedgerRefused, match=SAYS),
    ):
        ledger.schedules.save(wanted, source=None, now=ledger.now + MINUTE, disabled=["gone"])

    assert ledger.schedules.schedules() == before


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


# What else may be locked


@pytest.mark.long  # by `make faults`
@on_servers
def test_of_edited_schedules_the_one_whose_plan_is_held_is_planned_later(
    ledger: Ledger, holding: Holding
) -> None:
    names = [f"report-{number}" for number in range(5)]
    ledger.save(*map(draft, names))
    ledger.plan_edited()
    ledger.save(*(draft(name, params='{"v":2}') for name in names))
    held = ids_of(ledger.schedules, names)["report-2"]

    with holding(f"SELECT * FROM SchedulerPlan WHERE scheduler_id = {held} FOR UPDATE"):
        beside = ledger.plan_edited()
        ledger.clock.advance(MINUTE)
        claimed = ledger.claim_due().claimed
    after = ledger.plan_edited()

    assert (beside.looked, beside.busy, beside.more) == (4, 1, False)
    assert {one.schedule_name for one in claimed} == set(names) - {"report-2"}
    assert (after.looked, after.busy) == (1, 0)
    assert [one.schedule_name for one in ledger.claim_due().claimed] == ["report-2"]


@pytest.mark.long  # by `make faults`
@on_servers
def test_what_is_overdue_behind_whole_pages_of_held_rows_is_found(
    ledger: Ledger, holding: Holding
) -> None:
    held = some(ledger)[:4]
    ledger.clock.advance(GRACES.claimed)

    def find() -> set[int]:
        return {one.id for one in ledger.claims.overdue(now=ledger.now, graces=GRACES, limit=2)}

    with ExitStack() as sessions:  # one by one, or a small table is held as a whole
        for one in held:
            sessions.enter_context(holding(row_of(one)))
        beside = find() | find() | find()
    ledger.clock.advance(MINUTE)
    after = find() | find()

    assert len(beside) == 1
    assert after == {one.id for one in held}


@pytest.mark.long  # by `make faults`
@on_servers
def test_an_end_that_somebody_holds_is_found_later(ledger: Ledger, holding: Holding) -> None:
    held, free = ledger.failed("held"), ledger.failed("free")
    ends = [one.ticket for one in (held, free)]
    ledger.clock.advance(GRACES.ended)

    with holding(f"SELECT id FROM FailedTask WHERE id = {held.id} FOR UPDATE"):
        found = ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=9)
        ledger.claims.mark_ends_published(ends)
    ledger.clock.advance(max(GRACES.ended, MINUTE))
    later = ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=9)

    assert [one.id for one in found] == [free.id]
    assert [one.id for one in later] == [held.id]


@pytest.mark.long  # by `make faults`
@on_servers
@pytest.mark.parametrize("table", ["FailedTask", "SchedulerExecution"])
@pytest.mark.parametrize("key", [None, "task"])
def test_however_slow_a_replay_is_a_held_failure_keeps_no_other_waiting(
    ledger: Ledger, holding: Holding, table: str, key: str | None
) -> None:
    for number in range(4):
        ledger.failed(f"job-{number}")
    *_, second, first = ledger.records.archive()
    held = [row.id if table == "FailedTask" else row.execution_id for row in (first, second)]
    slow = ReplayOrder(which=UNRESOLVED, rate=1, jitter=0, key=key, at_once=2)
    begun = list[str]()

    with holding(f"SELECT * FROM {table} WHERE id IN {tuple(held)} FOR UPDATE"):
        ledger.replays.order(slow, now=ledger.now)
        for _ in range(5):
            begun += [one.schedule_name for one in ledger.advanced().executions]
            ledger.clock.advance(SECOND)

    assert begun == ["job-2", "job-3"]


# A row of our own tables that does not fit


def test_an_execution_that_does_not_fit_is_set_apart_until_it_is_mended_and_the_others_go_on(
    sqlite: Ledger, sqlite_shell: Shell
) -> None:
    broken, sound = sqlite.published("broken"), sqlite.published("sound")
    sqlite_shell(f"UPDATE SchedulerExecution SET retry = 'none' WHERE id = {broken.id}")
    sqlite.clock.advance(DAY)

    refused = sqlite.start(broken)
    found = sqlite.claims.overdue(now=sqlite.now, graces=Graces(), limit=2)

    assert isinstance(refused, Refused)
    problems = {one.id: one.problem for one in found}
    assert problems.pop(sound.id) is None
    assert str(problems[broken.id]).startswith("SchedulerExecution: retry: not JSON")
    [row] = sqlite.records.archive()
    assert (row.execution_id, row.kind) == (broken.id, "quarantined")
    assert row.failed_reason == problems[broken.id]
    sqlite.clock.advance(DAY)
    assert sqlite.overdue() == [sound.id]
    sqlite_shell(f"UPDATE SchedulerExecution SET retry = NULL WHERE id = {broken.id}")
    [replayed] = sqlite.records.replay([row.id], now=sqlite.now)
    assert sqlite.started(replayed).attempt == 2


def test_another_row_that_does_not_fit_is_told_with_its_column_and_the_others_are_read(
    sqlite: Ledger, sqlite_shell: Shell, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
    sqlite.plan_edited()
    archived, sound = sqlite.failed("broken"), sqlite.failed("sound")
    sqlite_shell(f"UPDATE FailedTask SET failed_reason = x'00' WHERE id = {archived.id}")

    read = [one.id for one in sqlite.records.archive()]
    told = caplog.messages[-1]
    facts = SqlInspection(lambda: engine, sqlite.clock).inspect()
    engine.dispose()

    assert read == [sound.id]
    assert told.startswith("A row cannot be read: FailedTask ")
    assert "failed_reason: 1 bytes: Expected `str`" in told
    assert isinstance(facts, LedgerFacts)
    assert facts.activity is not None
    [named] = facts.activity.broken_rows
    assert told.endswith(named)
    assert sqlite.records.discard([sound.id], note="", now=sqlite.now) == 1
