from datetime import timedelta

import pytest

from cronhare.application.worker.leases import LeaseKeeper
from cronhare.domain.execution import State
from cronhare.ports.runner import StopReason
from tests.unit.application.deliveries import SECOND, begin, due
from tests.unit.application.house import LEASE, House


async def test_a_renewal_without_an_answer_does_not_keep_a_lease_from_being_given_up() -> None:
    house = House(holds=True)
    await begin(house)
    stopped: list[StopReason] = []
    keeper = LeaseKeeper(
        attempts=house.attempts,
        clock=house.clock,
        node=house.node,
        lease=LEASE,
        stop=lambda _, reason: stopped.append(reason),
    )
    held = keeper.hold(house.only, since=house.clock.monotonic())
    early: list[StopReason] = []

    def hang() -> None:
        house.clock.advance(LEASE * 2 / 3 - SECOND)
        keeper.watch()
        early.extend(stopped)
        house.clock.advance(SECOND)
        keeper.watch()
        keeper.has_ended(held)  # it was killed

    house.outage.begin("renew", calls=1)
    house.outage.takes["renew"] = hang
    keeper.renew()

    assert early == []
    assert stopped == [StopReason.LEASE_LOST]


@pytest.mark.parametrize("heard", [True, False])
async def test_what_starts_after_an_outage_has_a_fresh_lease(heard: bool) -> None:
    house = House(holds=True)
    house.outage.begin("start", calls=2, heard=heard)
    house.outage.takes["start"] = lambda: house.clock.advance(LEASE)
    await begin(house)

    house.keeper.watch()
    house.reconciler.tick(house.now)
    await house.settle()

    assert house.runner.running == {house.only.id}
    assert house.only.attempt == 1
    assert house.only.lease_until == house.now + LEASE


async def test_what_somebody_gave_up_before_its_start_was_answered_is_not_run() -> None:
    house = House(holds=True)
    due(house)

    def answered_late() -> None:
        house.clock.advance(LEASE)
        house.outage.slow["start"] = lambda: house.reconciler.tick(house.now)

    house.outage.slow["start"] = answered_late
    await house.open()
    await house.settle()

    await house.worker.handle(house.deliveries.pop())

    assert (house.runner.running, house.only.state) == (frozenset(), State.RETRYING)
    assert house.worker.counters.fenced == 1


async def test_a_lease_is_kept_until_the_result_is_recorded() -> None:
    house = House(holds=True)
    await begin(house)
    house.outage.begin("finish")
    house.runner.release(house.only.id)
    await house.settle()
    house.clock.advance(timedelta(seconds=29))

    house.keeper.renew()
    still_ours = house.only.lease_until
    house.outage.end()
    await house.settle()

    assert still_ours == house.now + LEASE
    assert house.only.state is State.SUCCEEDED
