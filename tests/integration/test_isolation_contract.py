"""One row that the database refuses, or that somebody keeps locked: the others go on at once."""

from collections.abc import Callable, Collection, Sequence

import attrs
import pytest
from sqlalchemy import URL

from cronhare.domain.execution import Execution, Graces, State
from cronhare.domain.lifecycle.retry_limits import Limited
from cronhare.domain.retries.retry import Complete, Quarantine
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import Finish, Refused
from cronhare.ports.runner import Captured
from tests.integration.ledgers import (
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
    holding_in,
    some,
    start_all,
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
    finishes = [Finish(execution=one, ran=SUCCESS, verdict=Complete()) for one in found]
    ledger.attempts.finish(finishes, now=ledger.now, node="ant")
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


def regain(ledger: Ledger, found: Sequence[Execution]) -> Ids:
    ledger.claims.regain(now=ledger.now, limit=len(found))
    ledger.clock.advance(24 * HOUR)
    return {one.id for one in ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=100)}


OPERATIONS = {
    "start": Operation(run=start),
    "finish": Operation(run=finish, started=True),
    "give up": Operation(run=give_up, started=True),
    "renew": Operation(run=renew, started=True),
    "mark published": Operation(run=mark_published),
    "hand over": Operation(run=hand_over),
    "overdue": Operation(run=overdue),
    "end waiting": Operation(run=end_waiting, change="cancel_requested = 1"),
    "regain": Operation(run=regain, change="check_at = NULL"),
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


def test_a_start_that_is_refused_is_answered_with_the_reason(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger)

    with refusing("ExecutionAttempt", "INSERT", f"NEW.execution_id = {found[2].id}"):
        answers = start_all(ledger, found)

    assert [type(one) for one in answers] == [Execution, Execution, Refused, Execution, Execution]
    assert SAYS in str(answers[2])
    assert SAYS in apart(ledger, found[2])


@pytest.mark.parametrize(
    ("table", "event"), [("AttemptOutput", "INSERT"), ("ExecutionAttempt", "UPDATE")]
)
def test_an_end_that_is_refused_is_recorded_as_a_quarantine_that_says_how_it_ended(
    ledger: Ledger, refusing: Refusing, table: str, event: str
) -> None:
    started = all_started(ledger, some(ledger))
    ran = attrs.evolve(SUCCESS, stdout=Captured(head="said", bytes=4))
    finishes = [Finish(execution=one, ran=ran, verdict=Complete()) for one in started]

    with refusing(table, event, f"NEW.execution_id = {started[3].id}"):
        answers = ledger.attempts.finish(finishes, now=ledger.now, node="ant")

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
