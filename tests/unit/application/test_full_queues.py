"""Queues that take nothing, beside others: the broker's no is an answer, and costs only them."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from cronhare.domain.execution import State
from cronhare.domain.schedules.planning import HEAD_START
from cronhare.domain.topology import MAIN_QUEUE, first_queue
from cronhare.ports.broker import Envelope, Published
from tests.trial_broker import TrialBroker
from tests.unit.application.conftest import Lines
from tests.unit.application.house import House

MINUTE, ROUND = timedelta(minutes=1), timedelta(seconds=5)
DEAF = "cron_scheduler.deaf"


class PartlyDeaf(TrialBroker):
    """Has one queue that takes nothing, and counts what was tried there."""

    answer = Published.REFUSED
    tried = 0

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        unreachable = [first_queue(each.to) == DEAF for each in batch]
        self.tried += sum(unreachable)
        rest = [each for each, is_deaf in zip(batch, unreachable, strict=True) if not is_deaf]
        answers = iter(super().publish(rest))
        return [self.answer if is_deaf else next(answers) for is_deaf in unreachable]


def house_of(broker: type[PartlyDeaf], *, page: int = 1_000) -> tuple[House, PartlyDeaf]:
    house = House(page=page)
    partly_deaf = broker(house.clock)
    house.build(broker=partly_deaf)
    return house, partly_deaf


@pytest.mark.parametrize("answer", [Published.REFUSED, Published.RETURNED])
def test_what_a_queue_does_not_take_keeps_nothing_of_others_back(answer: Published) -> None:
    house, broker = house_of(PartlyDeaf, page=2)
    broker.answer = answer
    for number in range(9):
        house.add(f"deaf-{number}", schedule="1 12 2 3 *", queue=DEAF)
    house.add("innocent", schedule="1 12 2 3 *")
    house.dispatcher.tick(house.now)
    broker.go_away()
    house.clock.advance(MINUTE + HEAD_START)
    house.dispatcher.tick(house.now)
    broker.come_back()
    house.clock.advance(MINUTE)
    broker.tried = 0

    house.reconciler.tick(house.now)

    [innocent] = house.executions(State.PUBLISHED)
    assert innocent.schedule_name == "innocent"
    assert broker.tried == 2  # a page of them; the rest is tried in later rounds
    house.clock.advance(MINUTE)
    house.reconciler.tick(house.now)
    assert broker.tried == 4


def test_what_a_full_queue_refuses_makes_no_broker_silent(lines: Lines) -> None:
    house, broker = house_of(PartlyDeaf)
    house.add("deaf", schedule="1 12 2 3 *", queue=DEAF)
    house.add("waits", schedule="1 12 2 3 *")
    house.add("late", schedule="10 12 2 3 *")

    for _ in range(12 * 12):
        house.clock.advance(ROUND)
        house.dispatcher.tick(house.now)
        house.reconciler.tick(house.now)

    assert broker.tried > 10
    assert not [line for line in lines() if "answered nothing" in line]
    refused = [line for line in lines() if "The broker did not take 1 message;" in line]
    assert len(refused) == broker.tried
    assert f"look at {DEAF}" in refused[0]
    assert {message.id for message in house.messages(MAIN_QUEUE)} >= {"2:1", "3:1"}
