"""A machine that slept, and clocks that are set: nothing that starts is declared lost."""

from datetime import datetime, timedelta

import pytest

from cronhare.adapters.memory.clock import FrozenClock
from cronhare.adapters.system.ledger_clock import HostClock, LedgerClock
from cronhare.domain.deaths import NO_NACKS
from cronhare.domain.execution import State
from cronhare.ports.attempts import Start
from cronhare.ports.clock import ClockPort
from tests.unit.application.deliveries import due
from tests.unit.application.house import LEASE, House

HOUR = timedelta(hours=1)


class NodeClock(FrozenClock):
    """The clock of a worker's machine, which follows another and may be set."""

    def __init__(self, follows: FrozenClock) -> None:
        super().__init__(follows.now())
        self._follows = follows
        self.ahead = timedelta(0)
        self.stood = timedelta(0)

    def now(self) -> datetime:
        return self._follows.now() + self.ahead

    def monotonic(self) -> float:
        return self._follows.monotonic() - self.stood.total_seconds()


def start(house: House, clock: ClockPort) -> None:
    """Start the only execution as a worker with this clock does."""
    wish = Start(execution_id=house.only.id, attempt=house.only.attempt, nacks=NO_NACKS)
    house.attempts.start([wish], now=clock.now(), node="bee-2", lease=LEASE)


@pytest.mark.parametrize(
    ("ahead", "stood"),
    [
        (timedelta(0), HOUR),
        (HOUR, timedelta(0)),
        (-HOUR, timedelta(0)),
        (timedelta(0), timedelta(0)),
    ],
    ids=["the stopwatch stood still", "set ahead", "set back", "slept"],
)
async def test_what_starts_first_after_a_leap_is_not_declared_lost(
    ahead: timedelta, stood: timedelta
) -> None:
    house = House()
    due(house)
    node = NodeClock(house.clock)
    kept = LedgerClock(house.claims.now, node)
    kept.measure()
    house.clock.advance(HOUR)  # on the server; and here, by the stopwatch or not
    node.ahead, node.stood = ahead, stood

    start(house, kept)

    assert house.reconciler.tick(house.now).lost == 0
    assert house.only.state is State.RUNNING
    house.clock.advance(LEASE)
    assert house.reconciler.tick(house.now).lost == 1


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_what_starts_first_after_the_host_was_set_is_not_declared_lost(
    step: timedelta,
) -> None:
    house = House()
    kept = HostClock(house.clock)
    due(house)
    house.clock.move_to(house.now + step)

    start(house, kept)

    assert house.reconciler.tick(house.now).lost == 0
    assert house.only.state is State.RUNNING
