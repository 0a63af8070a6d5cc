"""A rule that refuses all changes of one kind, while changes of other kinds are accepted."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.retry import Complete, Verdict
from cronhare.ports.attempts import Busy, Finish, Superseded
from cronhare.ports.ledger import LedgerUnavailable
from cronhare.ports.runner import AttemptResult, Captured
from tests.integration.ledgers import (
    FAILURE,
    FOR_GOOD,
    GRACES,
    IN_30_S,
    LOSS,
    SUCCESS,
    Ledger,
    Shell,
)
from tests.integration.rules import Refusing, all_started, some, start_all, states

DAY = timedelta(days=1)

#: What a rule may refuse of ends, and which: table, event, condition.
OF_ENDS = {
    "the archive": (("FailedTask", "INSERT", "1 = 1"), FOR_GOOD, FAILURE),
    "the state": (("SchedulerExecution", "UPDATE", "NEW.state = 'retrying'"), IN_30_S, FAILURE),
    "the ending": (("ExecutionAttempt", "UPDATE", "NEW.ending = 'failed'"), IN_30_S, FAILURE),
    "the output": (
        ("AttemptOutput", "INSERT", "1 = 1"),
        Complete(),
        AttemptResult(outcome=SUCCESS.outcome, stdout=Captured(head="said", bytes=4)),
    ),
}


@pytest.fixture
def ledger(database_ledger: Ledger) -> Ledger:
    return database_ledger


def all_of(state: str) -> str:
    """Mean each execution in a state, and let it be set apart."""
    return f"OLD.state = '{state}' AND NEW.state <> 'quarantined'"


def in_turn(started: Sequence[Execution], verdict: Verdict, ran: AttemptResult) -> list[Finish]:
    """End attempts well, without a word, and so, one after the other."""
    ends: list[tuple[Verdict, AttemptResult]] = [(Complete(), SUCCESS), (verdict, ran)]
    return [
        Finish(execution=one, ran=ends[n % 2][1], verdict=ends[n % 2][0])
        for n, one in enumerate(started)
    ]


@pytest.mark.parametrize(("rule", "verdict", "ran"), OF_ENDS.values(), ids=OF_ENDS)
def test_of_ends_that_are_all_refused_none_is_set_apart_beside_others(
    ledger: Ledger,
    refusing: Refusing,
    rule: tuple[str, str, str],
    verdict: Verdict,
    ran: AttemptResult,
) -> None:
    started = all_started(ledger, some(ledger, 6))
    finishes = in_turn(started, verdict, ran)

    with refusing(*rule):
        answers = ledger.attempts.finish(finishes, now=ledger.now, node="ant")
    again = ledger.attempts.finish(finishes, now=ledger.now, node="ant")

    assert answers == [State.SUCCEEDED, Busy()] * 3
    assert Busy() not in again
    assert State.QUARANTINED not in states(ledger, started)


@pytest.mark.parametrize(("rule", "verdict", "ran"), OF_ENDS.values(), ids=OF_ENDS)
def test_of_ends_that_are_all_refused_the_first_is_set_apart_where_each_is_told_alone(
    ledger: Ledger,
    refusing: Refusing,
    rule: tuple[str, str, str],
    verdict: Verdict,
    ran: AttemptResult,
) -> None:
    started = all_started(ledger, some(ledger, 8))

    with refusing(*rule):
        for finish in in_turn(started, verdict, ran)[:2]:
            ledger.attempts.finish([finish], now=ledger.now, node="ant")
        for finish in in_turn(started, verdict, ran)[2:]:
            try:
                ledger.attempts.finish([finish], now=ledger.now, node="ant")
            except LedgerUnavailable:
                assert finish.verdict == verdict

    assert states(ledger, started) == [
        State.SUCCEEDED,
        State.QUARANTINED,
        *[State.SUCCEEDED, State.RUNNING] * 3,
    ]


def test_of_losses_that_are_all_refused_none_is_set_apart_beside_results(
    ledger: Ledger, refusing: Refusing
) -> None:
    started = all_started(ledger, some(ledger, 6))

    with refusing("ExecutionAttempt", "UPDATE", "NEW.ending = 'lost'"):
        for one in started[:3]:
            ledger.finish(one, Complete(), SUCCESS)
        lost = [Finish(execution=one, ran=LOSS, verdict=FOR_GOOD) for one in started[3:]]
        answers = ledger.attempts.give_up(lost, now=ledger.now)

    assert answers == [Superseded()] * 3
    assert states(ledger, started) == [*[State.SUCCEEDED] * 3, *[State.RUNNING] * 3]


@pytest.mark.parametrize(
    "rule",
    [
        ("ExecutionAttempt", "INSERT", "NEW.attempt > 1"),
        ("SchedulerExecution", "UPDATE", all_of("retrying")),
    ],
)
def test_of_retries_whose_starts_are_all_refused_none_is_set_apart_beside_first_attempts(
    ledger: Ledger, refusing: Refusing, rule: tuple[str, str, str]
) -> None:
    found = some(ledger, 9)
    retries = [ledger.finished(one, IN_30_S) for one in found[:3]]
    ledger.clock.advance(timedelta(seconds=30))

    with refusing(*rule):
        answers = start_all(ledger, [*retries, *found[3:6]])

    assert answers[:3] == [Busy()] * 3
    assert states(ledger, found) == [
        *[State.RETRYING] * 3,
        *[State.RUNNING] * 3,
        *[State.CLAIMED] * 3,
    ]


def test_a_first_attempt_that_could_start_proves_no_retry_guilty(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger, 4)
    retries = [ledger.finished(one, IN_30_S) for one in found[:2]]
    ledger.clock.advance(timedelta(seconds=30))

    with (
        refusing("ExecutionAttempt", "INSERT", "NEW.attempt > 1"),
        pytest.raises(LedgerUnavailable),
    ):
        start_all(ledger, retries)

    assert states(ledger, found) == [*[State.RETRYING] * 2, *[State.CLAIMED] * 2]


def test_of_what_waits_all_that_was_never_published_may_be_refused_beside_what_was(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger, 8)
    ledger.claims.mark_published(found[:1], now=ledger.now)
    ledger.clock.advance(DAY)

    with refusing("SchedulerExecution", "UPDATE", all_of("claimed")):
        taken = ledger.overdue()

    assert taken == [found[0].id]
    assert states(ledger, found) == [State.PUBLISHED, *[State.CLAIMED] * 7]


def test_a_mark_of_a_retry_proves_no_other_guilty_that_was_sent_again(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger, 4)
    ledger.claims.mark_published(found[1:], now=ledger.now)
    sent = [ledger.finished(found[0], IN_30_S), *(ledger.seen(one) for one in found[1:])]
    ledger.clock.advance(DAY)

    with refusing("SchedulerExecution", "UPDATE", all_of("published")):
        ledger.claims.mark_published(sent, now=ledger.now)

    assert states(ledger, found) == [State.RETRYING, *[State.PUBLISHED] * 3]


def test_what_is_handed_over_before_it_was_published_proves_nothing_of_what_was(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger, 4)
    ledger.claims.mark_published(found[1:], now=ledger.now)
    sent = [ledger.seen(one) for one in found]

    with refusing("SchedulerExecution", "UPDATE", all_of("published")):
        ledger.claims.hand_over(sent, now=ledger.now)

    assert states(ledger, found) == [State.HANDED_OVER, *[State.PUBLISHED] * 3]


def test_what_was_sent_and_is_regained_proves_nothing_of_what_was_not(
    ledger: Ledger, refusing: Refusing, shell: Shell
) -> None:
    found = some(ledger, 6)
    ledger.claims.mark_published(found[:2], now=ledger.now)
    shell("UPDATE SchedulerExecution SET check_at = NULL")

    with refusing("SchedulerExecution", "UPDATE", all_of("claimed")):
        regained = ledger.claims.regain(now=ledger.now, limit=9)

    assert regained == 2
    assert states(ledger, found) == [*[State.PUBLISHED] * 2, *[State.CLAIMED] * 4]


def test_broken_rows_that_nobody_may_set_apart_prove_nothing_of_what_is_sound(
    ledger: Ledger, refusing: Refusing, shell: Shell
) -> None:
    found = some(ledger, 4)
    shell(f"UPDATE SchedulerExecution SET retry = 'nonsense' WHERE id < {found[2].id}")
    ledger.clock.advance(DAY)

    with refusing("FailedTask", "INSERT", "1 = 1"):
        taken = ledger.claims.overdue(now=ledger.now, graces=GRACES, limit=9)

    assert [one.id for one in taken] == [one.id for one in found[2:]]
    assert states(ledger, found) == [State.CLAIMED] * 4
