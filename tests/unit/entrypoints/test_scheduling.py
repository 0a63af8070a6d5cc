import pytest

from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.processes.scheduler import SchedulerRound
from cronhare.ports import LedgerUnavailable
from tests.actors import ADA
from tests.unit.application.deliveries import SECOND, due
from tests.unit.application.house import LEASE, House


def scheduling(house: House) -> SchedulerRound:
    return SchedulerRound(
        claims=house.claims,
        dispatcher=house.dispatcher,
        reconciler=house.reconciler,
        clock=house.clock,
        lease=LEASE,
    )


def test_what_was_lost_is_sent_again_although_nothing_can_be_claimed() -> None:
    house = House()
    house.broker.go_away()
    due(house)
    house.broker.come_back()
    house.clock.advance(10 * SECOND)
    house.outage.begin("next_due")

    with pytest.raises(LedgerUnavailable):
        scheduling(house).round()

    assert house.broker.depth(MAIN_QUEUE) == 1


def test_a_call_has_what_was_claimed_by_hand_published_at_once() -> None:
    house = House()
    house.add(schedule=None)
    scheduler = scheduling(house)
    scheduler.round()
    house.administrator.run_now("report", params=None, actor=ADA)
    scheduler.round()
    assert house.broker.depth(MAIN_QUEUE) == 0

    scheduler.call()
    rest = scheduler.round()

    assert house.broker.depth(MAIN_QUEUE) == 1
    assert 4 < rest <= 5
