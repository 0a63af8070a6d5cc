"""A machine that slept, and clocks that are set: nothing that starts is declared lost."""

from datetime import datetime, timedelta

import pytest

from cronhare.adapters.system.clock import LedgerClock
from cronhare.domain.execution import State
from cronhare.ports.attempts import StartRequest
from cronhare.ports.system import ClockPort
from tests.frozen_clock import FrozenClock
from tests.ports import NO_NACKS
from tests.unit.application.deliveries import begin, both_begin, deliver, due, foreign_body, run
from tests.unit.application.endings import failure, one_by_one
from tests.unit.application.house import LEASE, House
from tests.unit.application.node_clock import NodeClock

HOUR = timedelta(hours=1)


def start(house: House, clock: ClockPort) -> None:
    """Start the only execution as a worker with this clock does."""
    request = StartRequest(execution_id=house.only.id, attempt=house.only.attempt, nacks=NO_NACKS)
    house.attempts.start([request], now=clock.now(), node="bee-2", lease=LEASE)


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


async def running_and_watched() -> House:
    """A house that runs something, whose leases are looked at all the time."""
    house = House(holds=True)
    await begin(house)
    house.keeper.renew()
    house.keeper.watch()
    return house


async def test_what_a_renewal_would_keep_is_not_ended_after_a_suspend() -> None:
    house = await running_and_watched()

    house.clock.advance(HOUR)  # all of it slept, the ledger's host as well
    house.keeper.watch()
    house.keeper.renew()
    house.keeper.watch()
    await house.settle()

    assert house.runner.running == {house.only.id}
    assert house.only.lease_until == house.now + LEASE


async def test_whose_place_was_taken_in_a_suspend_is_ended_by_the_first_renewal() -> None:
    house = await running_and_watched()
    house.clock.advance(HOUR)
    house.reconciler.tick(house.now)

    house.keeper.watch()
    early = house.runner.running
    house.keeper.renew()
    await house.settle()

    assert (len(early), house.runner.running) == (1, frozenset())


async def test_a_ledger_that_does_not_answer_after_a_suspend_is_given_up() -> None:
    house = await running_and_watched()
    house.outage.begin("renew")
    house.clock.advance(HOUR)
    woke = house.clock.monotonic()

    while house.runner.running and house.clock.monotonic() - woke < LEASE.total_seconds():
        house.keeper.watch()
        house.keeper.renew()
        await house.settle()
        house.clock.advance(LEASE / 3)

    assert house.runner.running == frozenset()
    assert house.clock.monotonic() - woke <= 2 * LEASE.total_seconds() / 3


async def test_a_row_that_is_held_keeps_no_other_from_its_renewal_after_the_next_suspend() -> None:
    house = House(holds=True)
    held, other = await both_begin(house)
    house.keeper.watch()
    house.outage.held.add(held)
    house.runner.release(held)  # its result waits for the row
    await house.settle()
    for _ in range(2):
        house.clock.advance(HOUR)
        for _ in range(6):
            house.keeper.watch()
            house.keeper.renew()
            house.clock.advance(LEASE / 6)
        await house.settle()

    assert house.runner.running == {other}
    assert {row.attempt for row in house.executions(State.RUNNING)} == {1}


async def test_a_renewal_that_a_suspend_held_up_is_followed_by_another() -> None:
    house = await running_and_watched()

    def sleep() -> None:
        house.clock.advance(HOUR)
        house.keeper.watch()

    house.outage.slow["renew"] = sleep
    house.keeper.renew()
    house.clock.advance(LEASE / 15)
    house.keeper.watch()
    house.keeper.renew()
    house.keeper.watch()
    await house.settle()

    assert house.runner.running == {house.only.id}


class ThreadsClock(FrozenClock):
    """Counts who asks for the time in the worker's event loop, where the ledger cannot be asked."""

    house: House
    asked = in_the_loop = 0

    def now(self) -> datetime:
        self.asked += 1
        self.in_the_loop += not self.house.executor.busy
        return super().now()

    def peek(self) -> None:
        """Know no time without asking, as after a leap."""

    def monotonic(self) -> float:
        return self.house.clock.monotonic()


async def test_a_worker_never_asks_for_the_time_in_its_event_loop() -> None:
    house = House(script=one_by_one([failure()]))
    clock = ThreadsClock(house.now)
    clock.house = house
    house.worker_clock = clock
    house.build()

    await run(house)
    await deliver(house, foreign_body(house))

    assert [row.state for row in house.executions()] == [State.RETRYING, State.SUCCEEDED]
    assert (clock.asked > 0, clock.in_the_loop) == (True, 0)
