from datetime import timedelta

import pytest

from cronhare.domain.deaths import NO_NACKS
from cronhare.domain.execution import State
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.scheduler import Scheduling
from cronhare.ports.attempts import Start
from cronhare.ports.ledger import LedgerUnavailable
from tests.unit.application.deliveries import due
from tests.unit.application.house import LEASE, NOON, House

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def scheduling(house: House) -> Scheduling:
    return Scheduling(claims=house.claims, dispatcher=house.dispatcher, reconciler=house.reconciler)


def test_what_was_lost_is_sent_again_although_nothing_can_be_claimed() -> None:
    house = House()
    house.add(schedule="1 12 2 3 *")
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)
    house.broker.go_away()
    house.dispatcher.tick(house.now)
    house.broker.come_back()
    house.clock.advance(10 * SECOND)
    house.outage.begin("next_due")

    with pytest.raises(LedgerUnavailable):
        scheduling(house).round()

    assert house.broker.depth(MAIN_QUEUE) == 1


def test_it_rests_until_the_next_refresh() -> None:
    house = House()
    house.add(schedule="1 12 2 3 *")

    rest = scheduling(house).round()

    assert house.now == NOON
    assert 4 < rest <= 5


def test_after_an_outage_of_the_ledger_a_worker_has_a_lease_to_be_heard() -> None:
    house = House()
    due(house)
    start = Start(execution_id=house.only.id, attempt=1, nacks=NO_NACKS)
    house.attempts.start([start], now=house.now, node="bee-7", lease=LEASE)
    rounds = scheduling(house)
    house.outage.begin("next_due")
    with pytest.raises(LedgerUnavailable):
        rounds.round()
    house.clock.advance(4 * LEASE)
    house.outage.end()

    rounds.round()  # the scheduler is back before the worker
    house.clock.advance(LEASE - SECOND)
    rounds.round()
    spared = house.only.state
    house.clock.advance(5 * SECOND)
    rounds.round()  # it was lost, after all

    assert (spared, house.only.state) == (State.RUNNING, State.RETRYING)
