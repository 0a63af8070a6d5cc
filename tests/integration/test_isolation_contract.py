"""One row that the database refuses, that somebody keeps locked or has spoilt: the others go on."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import attrs
import pytest
from sqlalchemy import URL

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.records.inspection import SqlInspection
from cronhare.domain.execution import Execution, Graces, State
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.lifecycle.orders import ReplayOrder, ReplayState
from cronhare.domain.lifecycle.retry_limits import Limited
from cronhare.domain.messages import TaskMessage
from cronhare.domain.retries.retry import Complete, Quarantine
from cronhare.ports import LedgerOutdated, LedgerRefused, LedgerUnavailable
from cronhare.ports.attempts import Finish, Refused
from cronhare.ports.inspection import LedgerFacts
from cronhare.ports.runner import Captured
from tests.integration.ledgers import (
    DAY,
    FOR_GOOD,
    HOUR,
    LEASE,
    LOSS,
    MINUTE,
    SUCCESS,
    Ledger,
    Shell,
    draft,
)
from tests.integration.rules import (
    SAYS,
    Refusing,
    all_started,
    apart,
    claim_all,
    holding_in,
    some,
    states,
)

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


@pytest.mark.parametrize("database", ["mysql", "postgresql"], indirect=True)
@pytest.mark.integration
@each_operation
def test_the_one_that_is_locked_comes_back_in_a_minute_and_the_others_go_on(
    ledger: Ledger,
    shell: Shell,
    database: str,
    request: pytest.FixtureRequest,
    operation: Operation,
) -> None:
    holding = holding_in(request.getfixturevalue(f"migrated_{database}"))
    found = prepared(ledger, shell, operation)
    locked = found[2]

    with holding(f"SELECT id FROM SchedulerExecution WHERE id = {locked.id} FOR UPDATE"):
        beside = operation.run(ledger, found)
        left = ledger.seen(locked).state
    ledger.clock.advance(MINUTE)
    after = operation.run(ledger, [locked])

    assert ({*beside}, left) == ({one.id for one in found if one is not locked}, locked.state)
    assert locked.id in after


@pytest.mark.parametrize("database", ["mysql", "postgresql"], indirect=True)
@pytest.mark.integration
def test_a_statement_that_fails_for_all_is_an_outage_and_sets_none_apart(
    ledger: Ledger, shell: Shell
) -> None:
    found = some(ledger)
    shell("ALTER TABLE SchedulerExecution RENAME COLUMN last_error TO error_last")
    try:
        with pytest.raises(LedgerUnavailable) as raised:
            start(ledger, found)
    finally:
        shell("ALTER TABLE SchedulerExecution RENAME COLUMN error_last TO last_error")

    assert raised.value.changed_nothing
    assert states(ledger, found) == [one.state for one in found]


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


def test_on_mariadb_locked_gaps_delay_the_claims_of_others_by_seconds(
    mysql: Ledger, migrated_mysql: URL
) -> None:
    """A person reads a tenth of the schedules' executions FOR UPDATE, and goes for a coffee."""
    mysql.save(*(draft(f"report-{number:03}") for number in range(100)))
    mysql.plan_edited()
    mysql.clock.advance(MINUTE)
    first = mysql.claim_due().claimed
    mysql.clock.advance(MINUTE)
    which = ", ".join(str(one.scheduler_id) for one in first[::10])

    with holding_in(migrated_mysql)(
        "SELECT id FROM SchedulerExecution FORCE INDEX (ux_execution_key) "
        f"WHERE scheduler_id IN ({which}) FOR UPDATE"
    ):
        claimed = mysql.claim_due().claimed

    assert len(claimed) >= 70  # the gap before a locked row is locked as well


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
        ledger.schedules.save(
            wanted,
            source=None,
            now=ledger.now + MINUTE,
            disabled=["gone"],
        )

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


def test_a_column_of_ours_that_is_gone_is_an_old_schema_and_no_fault_of_a_row(
    ledger: Ledger, shell: Shell
) -> None:
    started = all_started(ledger, some(ledger, 2))
    shell("ALTER TABLE ExecutionAttempt RENAME COLUMN cpu_seconds TO cpu")
    try:
        with pytest.raises(LedgerOutdated, match=r"cpu_seconds.*run `cronhare db upgrade`"):
            ledger.finish_all(started, Complete(), SUCCESS)
        with pytest.raises(LedgerOutdated, match=r"cpu_seconds.*run `cronhare db upgrade`"):
            ledger.records.attempts(started[0].id)
    finally:
        shell("ALTER TABLE ExecutionAttempt RENAME COLUMN cpu TO cpu_seconds")

    assert states(ledger, started) == [State.RUNNING] * 2


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


# Rows of our own tables that somebody spoilt


SPOILT = pytest.mark.parametrize(
    ("database", "change", "problem"),
    [
        ("sqlite", f"retry = '{'[' * 4000}'", "retry: not JSON"),
        ("sqlite", f"due_at = '{'z' * 26}'", "due_at: 'zzz"),
        ("sqlite", "params = zeroblob(4000000)", "params: 4,000,000 bytes: Expected"),
    ],
)


def spoil(shell: Shell, execution: Execution, change: str) -> None:
    shell(f"UPDATE SchedulerExecution SET {change} WHERE id = {execution.id}")


@SPOILT
def test_what_waits_and_is_broken_is_quarantined_and_the_others_are_sent(
    ledger: Ledger, shell: Shell, change: str, problem: str
) -> None:
    broken, sound = ledger.published("broken"), ledger.published("sound")
    spoil(shell, broken, change)
    ledger.clock.advance(DAY)

    refused = ledger.start(broken)
    found = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=2)

    assert isinstance(refused, Refused)
    [told] = (one for one in found if one.problem is not None)
    assert [one.id for one in found if one.problem is None] == [sound.id]
    assert told.problem is not None
    assert problem in told.problem
    assert len(told.problem) < 500
    assert ledger.overdue() == []
    ledger.clock.advance(DAY)
    assert ledger.overdue() == [sound.id]
    [row] = ledger.records.archive()
    assert (row.execution_id, row.kind) == (told.id, "quarantined")
    assert row.failed_reason == told.problem
    assert {one.id: one.state for one in ledger.executions()} == {
        told.id: State.QUARANTINED,
        sound.id: State.PUBLISHED,
    }
    assert ledger.started(sound).state is State.RUNNING


@SPOILT
def test_what_runs_and_is_broken_is_quarantined_once_its_lease_has_lapsed(
    ledger: Ledger, shell: Shell, change: str, problem: str
) -> None:
    broken, sound = ledger.running("broken"), ledger.running("sound")
    spoil(shell, broken, change)
    ledger.clock.advance(LEASE)

    found = ledger.claims.lapsed(now=ledger.now, limit=2)

    told = {one.id: one.problem for one in found}
    assert told.pop(sound.id) is None
    [said] = told.values()
    assert said is not None
    assert problem in said
    assert ledger.lapsed() == [sound.id]
    assert [row.kind for row in ledger.records.archive()] == ["quarantined"]


def test_a_broken_row_that_was_mended_can_be_replayed(ledger: Ledger, shell: Shell) -> None:
    broken = ledger.published()
    spoil(shell, broken, "retry = 'nonsense'")
    ledger.clock.advance(DAY)
    assert ledger.overdue() == [broken.id]
    [archived] = ledger.records.archive()

    refused = ledger.records.replay([archived.id], now=ledger.now)
    spoil(shell, broken, "retry = NULL")
    [replayed] = ledger.records.replay([archived.id], now=ledger.now)

    assert refused == []
    assert (replayed.id, replayed.state, replayed.problem) == (broken.id, State.CLAIMED, None)
    assert ledger.started(replayed).attempt == 2


ROWS = [
    ("ExecutionAttempt", "exit_code = 'none'", "exit_code: 'none': Expected `int"),
    ("FailedTask", "failed_reason = x'00'", "failed_reason: 1 bytes: Expected `str`"),
    ("AttemptOutput", "stdout_bytes = 'many'", "stdout_bytes: 'many': Expected `int`"),
]


@pytest.mark.parametrize("spoilt", ROWS)
def test_another_row_that_does_not_fit_is_told_with_its_column_and_the_others_are_read(
    sqlite: Ledger,
    sqlite_shell: Shell,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    spoilt: tuple[str, str, str],
) -> None:
    table, change, why = spoilt
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
    sqlite.plan_edited()
    archived, sound = sqlite.failed("broken"), sqlite.failed("sound")
    sqlite_shell(
        "INSERT INTO AttemptOutput (execution_id, attempt, stdout_head, stdout_tail,"
        " stdout_bytes, stderr_head, stderr_tail, stderr_bytes)"
        " SELECT execution_id, 1, '', '', 0, '', '', 0 FROM ExecutionAttempt"
    )
    sqlite_shell(f"UPDATE {table} SET {change} WHERE execution_id = {archived.execution_id}")

    read = (
        sqlite.records.attempts(archived.execution_id),
        sqlite.records.output(archived.execution_id),
        [one for one in sqlite.records.archive() if one.id != sound.id],
    )
    told = caplog.messages[-1]
    facts = SqlInspection(lambda: engine, sqlite.clock).inspect()
    engine.dispose()

    assert sorted(map(len, read)) == [0, 1, 1]
    assert told.startswith(f"A row cannot be read: {table} ")
    assert why in told
    assert isinstance(facts, LedgerFacts)
    assert facts.activity is not None
    [named] = facts.activity.broken_rows
    assert told.endswith(named)
    assert len(sqlite.records.attempts(sound.execution_id)) == 1
    assert sqlite.records.discard([sound.id], note="", now=sqlite.now) == 1
