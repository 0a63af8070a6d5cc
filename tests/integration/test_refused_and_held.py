"""One that the database refuses, and that cannot be set apart because others hold what it needs."""

import pytest

from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.retry import Complete
from cronhare.ports.attempts import Busy, EndRefused, Finish
from tests.integration.ledgers import GRACES, LEASE, MINUTE, SUCCESS, Ledger, Shell
from tests.integration.rules import (
    Holding,
    Refusing,
    all_started,
    refusing_in,
    some,
    start_all,
    states,
)

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`

#: Nobody can write into it, since nobody knows where the next row belongs.
THE_ARCHIVE = "SELECT id FROM FailedTask FOR UPDATE"


@pytest.fixture
def ledger(mysql: Ledger) -> Ledger:
    mysql.plan_edited()
    return mysql


@pytest.fixture
def refusing(mysql_shell: Shell) -> Refusing:
    return refusing_in("mysql", mysql_shell)


def test_its_neighbours_ends_are_answered(
    ledger: Ledger, refusing: Refusing, holding: Holding
) -> None:
    started = all_started(ledger, some(ledger, 3))
    finishes = [Finish(execution=one, ran=SUCCESS, verdict=Complete()) for one in started]
    rule = ("SchedulerExecution", "UPDATE", f"NEW.id = {started[1].id} AND NEW.state = 'succeeded'")

    with refusing(*rule):
        with holding(THE_ARCHIVE):
            answers = ledger.attempts.finish(finishes, now=ledger.now, node="ant")
        again = ledger.attempts.finish(finishes[1:2], now=ledger.now, node="ant")

    assert answers == [State.SUCCEEDED, Busy(), State.SUCCEEDED]
    assert [type(one) for one in again] == [EndRefused]
    assert states(ledger, started[1:2]) == [State.QUARANTINED]


def test_its_neighbours_starts_are_answered(
    ledger: Ledger, refusing: Refusing, holding: Holding
) -> None:
    found = some(ledger, 3)
    rule = ("ExecutionAttempt", "INSERT", f"NEW.execution_id = {found[1].id}")

    with refusing(*rule), holding(THE_ARCHIVE):
        answers = start_all(ledger, found)

    assert [type(one) for one in answers] == [Execution, Busy, Execution]


def test_its_neighbours_leases_are_renewed(
    ledger: Ledger, refusing: Refusing, holding: Holding
) -> None:
    started = all_started(ledger, some(ledger, 3))
    ids = [one.id for one in started]
    rule = ("SchedulerExecution", "UPDATE", f"NEW.id = {ids[1]} AND NEW.state = 'running'")

    with refusing(*rule), holding(THE_ARCHIVE):
        renewal = ledger.attempts.renew(ids, now=ledger.now, node="ant", lease=LEASE * 2)

    assert set(renewal.held) == {ids[0], ids[2]}
    assert set(renewal.busy) == {ids[1]}


def test_its_overdue_neighbours_are_taken(
    ledger: Ledger, refusing: Refusing, holding: Holding
) -> None:
    found = some(ledger, 3)
    ledger.clock.advance(MINUTE)
    rule = ("SchedulerExecution", "UPDATE", f"NEW.id = {found[1].id} AND NEW.state = 'claimed'")

    with refusing(*rule), holding(THE_ARCHIVE):
        taken = ledger.claims.overdue(now=ledger.now, graces=GRACES, limit=9)

    assert [one.id for one in taken] == [found[0].id, found[2].id]
    assert states(ledger, found) == [State.CLAIMED] * 3
