from datetime import UTC, datetime, timedelta

import pytest

from cronhare.adapters.memory.clock import FrozenClock
from cronhare.adapters.system.ledger_clock import LedgerClock
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerUnavailable

LEDGER = datetime(2026, 3, 28, 8, tzinfo=UTC)
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


def test_a_node_that_is_an_hour_ahead_has_the_ledgers_time() -> None:
    kept: ClockPort = LedgerClock(lambda: LEDGER, FrozenClock(LEDGER + HOUR))

    assert kept.now() == LEDGER


def test_measuring_says_how_far_this_node_is_ahead() -> None:
    clock = LedgerClock(lambda: LEDGER, FrozenClock(LEDGER + HOUR))

    assert clock.measure() == HOUR


def test_the_time_goes_on_without_asking() -> None:
    ours, answers = FrozenClock(LEDGER), iter([LEDGER])
    clock = LedgerClock(lambda: next(answers), ours)
    clock.measure()

    ours.advance(30 * SECOND)

    assert clock.now() == LEDGER + 30 * SECOND  # a second question would find no answer


def test_an_answer_counts_for_the_middle_of_the_question() -> None:
    ours = FrozenClock(LEDGER)

    def ask() -> datetime:
        ours.advance(SECOND)  # on its way there
        told = ours.now()
        ours.advance(SECOND)  # and back
        return told

    clock = LedgerClock(ask, ours)

    assert clock.measure() == timedelta(0)
    assert clock.now() == LEDGER + 2 * SECOND


def test_while_the_ledger_is_away_the_last_answer_stands() -> None:
    ours, answers = FrozenClock(LEDGER + HOUR), iter([LEDGER])

    def ask() -> datetime:
        for answer in answers:
            return answer
        raise LedgerUnavailable("away")

    clock = LedgerClock(ask, ours)
    clock.measure()
    ours.advance(SECOND)

    with pytest.raises(LedgerUnavailable):
        clock.measure()

    assert clock.now() == LEDGER + SECOND
