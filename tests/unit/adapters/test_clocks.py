"""The ledger's time as a node keeps it, and the machine's own clock."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from cronhare.adapters.system.clock import HostClock, LedgerClock, SystemClock
from cronhare.ports import LedgerUnavailable
from tests.frozen_clock import FrozenClock

LEDGER = datetime(2026, 3, 28, 8, tzinfo=UTC)
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


class LeapingClock(FrozenClock):
    """A clock whose wall time can be set, or stand still, apart from its stopwatch."""

    ahead = timedelta(0)
    stood = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() - self.stood.total_seconds()


def server_and_node() -> tuple[FrozenClock, LeapingClock, LedgerClock]:
    """Give the server's clock, the node's own, and the ledger's as the node keeps it."""
    server, node = FrozenClock(LEDGER), LeapingClock(LEDGER)
    kept = LedgerClock(server.now, node)
    kept.measure()
    return server, node, kept


def test_a_machine_whose_stopwatch_stood_still_asks_again() -> None:
    server, node, kept = server_and_node()

    server.advance(HOUR)
    node.advance(HOUR)
    node.stood = HOUR

    assert kept.now() == LEDGER + HOUR


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_wall_clock_that_is_set_changes_nothing(step: timedelta) -> None:
    server, node, kept = server_and_node()

    server.advance(SECOND)
    node.advance(SECOND)
    node.ahead = step

    assert kept.now() == LEDGER + SECOND
    assert kept.measure() == step


def test_the_ledger_is_asked_once_after_a_leap_and_while_it_is_away_the_last_answer_stands() -> (
    None
):
    node, asked = LeapingClock(LEDGER), []

    def ask() -> datetime:
        asked.append(node.monotonic())
        if len(asked) > 1:
            raise LedgerUnavailable("away")
        return LEDGER

    kept = LedgerClock(ask, node)
    kept.measure()
    node.ahead = HOUR
    node.advance(SECOND)

    assert [kept.now() for _ in range(3)] == [LEDGER + SECOND] * 3
    assert len(asked) == 2
    with pytest.raises(LedgerUnavailable):
        kept.measure()
    assert kept.now() == LEDGER + SECOND


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_file_has_the_time_of_its_host_whatever_becomes_of_it(step: timedelta) -> None:
    node = LeapingClock(LEDGER)
    kept = HostClock(node)

    node.ahead = step

    assert (kept.now(), kept.measure()) == (LEDGER + step, timedelta(0))


class SlowAnswers:
    def __init__(self, server: FrozenClock, node: FrozenClock) -> None:
        self.back = timedelta(0)
        self._clocks = server, node

    def __call__(self) -> datetime:
        told = self._clocks[0].now()
        for clock in self._clocks:
            clock.advance(self.back)
        return told


@pytest.mark.parametrize("leap", ["the server was set", "the stopwatch stood still"])
def test_a_slow_answer_that_contradicts_what_is_known_is_heeded(leap: str) -> None:
    server, node = FrozenClock(LEDGER), LeapingClock(LEDGER)
    ask = SlowAnswers(server, node)
    kept = LedgerClock(ask, node)
    kept.measure()
    server.advance(HOUR)
    if leap == "the stopwatch stood still":
        node.advance(HOUR)
        node.stood = HOUR
    ask.back = 8 * SECOND

    kept.measure()

    assert server.now() - kept.now() == 4 * SECOND


def test_a_slow_answer_does_not_spoil_what_a_quick_one_told() -> None:
    server, node = FrozenClock(LEDGER), FrozenClock(LEDGER)
    ask = SlowAnswers(server, node)
    kept = LedgerClock(ask, node)
    kept.measure()
    ask.back = 8 * SECOND

    kept.measure()

    assert kept.now() == server.now()


def test_the_system_clocks_stopwatch_counts_what_the_machine_slept() -> None:
    def machine() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    before, reading, after = machine(), SystemClock().monotonic(), machine()

    assert before <= reading <= after
