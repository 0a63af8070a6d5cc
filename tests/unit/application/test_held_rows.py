"""A worker and an execution whose row somebody else keeps locked: all others go on."""

import asyncio

import pytest

from cronhare.application.worker import record
from cronhare.application.worker.ledger import SHORT_PAUSES
from cronhare.domain.execution import State
from cronhare.domain.messages import Signer
from cronhare.domain.retries.policy import REST
from cronhare.domain.topology import LANE_UNIT, MAIN_QUEUE
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import SECOND, begin, both_begin, due
from tests.unit.application.endings import Seen
from tests.unit.application.house import LEASE, House

TWO_THIRDS = LEASE * 2 / 3


async def held_for_too_long(house: House) -> None:
    """Let the only run wait for its row until it gives its place away; the row is free then."""
    due(house)
    house.outage.held.add(house.only.id)
    await house.open()
    await house.work()
    house.outage.held.clear()


@pytest.mark.parametrize("signer", [Signer(), Signer(("secret",))], ids=["unsigned", "signed"])
async def test_a_start_whose_row_is_held_comes_back_each_minute(
    signer: Signer, lines: Lines
) -> None:
    house = House(signer=signer, accepts_foreign=False)
    await held_for_too_long(house)
    house.outage.held.add(house.only.id)

    house.clock.advance(REST - LANE_UNIT)
    await house.work()
    early = house.attempts.asked_to_start
    house.clock.advance(LANE_UNIT)
    await house.work()
    asked = house.attempts.asked_to_start - early
    house.outage.held.clear()
    house.clock.advance(REST)
    await house.work()

    assert asked == 1
    assert sum("Put off for a minute" in line for line in lines()) == 2
    assert (house.only.state, house.only.deaths) == (State.SUCCEEDED, 0)


async def test_a_start_that_a_broker_does_not_put_off_is_given_back() -> None:
    house = House()
    due(house)
    house.outage.held.add(house.only.id)
    await house.open()
    for _ in range(3):
        await asyncio.sleep(0)
    [delivery] = house.deliveries
    house.broker.go_away()
    await house.worker.handle(delivery)
    house.outage.held.clear()
    house.deliveries.clear()

    house.broker.come_back()
    await house.work()

    assert house.only.state is State.SUCCEEDED


async def end_held(house: House, *ids: int) -> None:
    """Let tasks end while somebody holds the rows of their executions."""
    house.outage.held.update(ids)
    for id_ in ids:
        house.runner.release(id_)
    await house.settle()


async def one_at_a_time(house: House) -> None:
    """Let two runs be due, of which the worker handles one at a time; the first begins."""
    house.add("one", schedule="1 12 2 3 *")
    due(house)
    await house.connection.consume([MAIN_QUEUE], prefetch=1, on_delivery=house.begin)
    await house.settle()


async def test_a_result_that_waits_for_a_row_gives_its_place_to_others() -> None:
    house = House(holds=True)
    await one_at_a_time(house)
    [first] = house.runner.running

    await end_held(house, first)
    [second] = house.runner.running
    pending_ends = house.worker.pending_ends
    house.outage.held.clear()
    house.runner.release(second)
    await house.settle()

    assert (second != first, pending_ends, house.worker.pending_ends) == (True, 1, 0)
    assert [each.state for each in house.executions()] == [State.SUCCEEDED] * 2


async def test_a_copy_of_what_waits_to_be_recorded_does_not_begin_again() -> None:
    house = House(holds=True)
    await begin(house)
    await end_held(house, house.only.id)
    house.outage.held.clear()
    house.outage.begin("finish")

    house.publish_again()
    await house.settle()

    assert (house.runner.running, house.worker.counters.fenced) == (frozenset(), 1)


async def test_more_results_than_may_wait_keep_their_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record, "MOST_PENDING", 1)
    house = House(holds=True)
    both = await both_begin(house)
    await end_held(house, *both)
    keep = (house.worker.pending_ends, sum(not task.done() for task in house.under_way))

    house.outage.held.clear()
    await house.settle()

    assert keep == (1, 1)
    assert [each.state for each in house.executions()] == [State.SUCCEEDED] * 2


async def test_what_died_behind_a_held_row_is_given_up_a_lease_after_it_is_free() -> None:
    house = House(holds=True)
    await begin(house)
    house.outage.held.add(house.only.id)
    replicas = [house.reconciler, house.neighbour("bee-1").reconciler]
    house.clock.advance(2 * LEASE)
    lost = [each.tick(house.now).lost for each in 2 * replicas]

    house.outage.held.clear()
    lost += [each.tick(house.now).lost for each in replicas]
    house.clock.advance(LEASE - SECOND)
    lost += [each.tick(house.now).lost for each in replicas]
    spared = sum(lost)
    house.clock.advance(SECOND)
    lost += [each.tick(house.now).lost for each in replicas]

    assert (spared, sum(lost)) == (0, 1)


@pytest.mark.parametrize("then", ["drains", "is held"])
async def test_a_start_that_took_long_is_believed_if_it_cannot_be_asked_for_again(
    then: str,
) -> None:
    seen = Seen()
    house = House(script=seen)
    due(house)

    def takes_long() -> None:
        house.clock.advance(TWO_THIRDS - SECOND)
        if then == "drains":
            house.worker.drain()
        else:
            house.outage.held.add(house.only.id)

    house.outage.slow["start"] = takes_long
    await house.open_wide()
    for _ in SHORT_PAUSES:
        await house.settle()
    begun = list(seen.attempts)
    house.outage.held.clear()
    await house.settle()

    assert begun == [(house.only.id, 1)]
    assert seen.attempts == [(house.only.id, 1)]
    assert (house.only.state, house.only.attempt) == (State.SUCCEEDED, 1)


async def test_a_lease_whose_row_is_held_is_given_up_alone_and_in_time(lines: Lines) -> None:
    house = House(holds=True)
    held, other = await both_begin(house)
    house.outage.held.add(held)

    house.clock.advance(TWO_THIRDS - SECOND)
    house.keeper.renew()
    house.keeper.watch()
    await house.settle()
    early = house.runner.running
    house.clock.advance(SECOND)
    house.keeper.renew()
    await house.settle()

    assert early == {held, other}
    assert house.runner.running == {other}
    assert any("cannot be renewed: somebody else keeps its row locked" in one for one in lines())
