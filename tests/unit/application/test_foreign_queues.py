"""Queues that another program serves: what arrives there is out of our hands."""

from datetime import timedelta

import pytest

from cronhare.domain.execution import State
from cronhare.domain.schedules.schedule import OverlapPolicy
from cronhare.domain.topology import MAIN_QUEUE
from tests.unit.application.deliveries import MINUTE, due, foreign_body
from tests.unit.application.house import LEASE, House


def house_of_a_foreign_queue() -> House:
    return House(foreign_queues=[MAIN_QUEUE])


async def test_what_arrives_in_a_foreign_queue_has_ended_for_us() -> None:
    house = house_of_a_foreign_queue()

    due(house)

    handed_over = house.only
    assert (handed_over.state, handed_over.finished_at) == (State.HANDED_OVER, house.now)
    assert list(house.records.attempts(handed_over.id)) == []


async def test_it_is_not_sent_again_for_days_and_keeps_no_later_run_from_starting() -> None:
    house = house_of_a_foreign_queue()
    house.add(overlap=OverlapPolicy.SKIP)
    house.dispatcher.tick(house.now)

    for _ in range(10):
        house.clock.advance(MINUTE)
        house.dispatcher.tick(house.now)
        house.reconciler.tick(house.now)

    assert [row.state for row in house.executions()] == [State.HANDED_OVER] * 10
    assert len(house.messages(MAIN_QUEUE)) == 10
    house.clock.advance(timedelta(days=3))
    house.reconciler.tick(house.now)
    assert house.messages(MAIN_QUEUE) == []


# What comes back through the main queue

REPORTS = "cron_scheduler.reports"


async def nacked_in_reports(house: House) -> None:
    """Let a worker of another program nack our message in a named queue."""
    delivery = house.broker.receive(REPORTS)
    assert delivery is not None
    house.broker.nack(delivery)
    house.clock.advance(LEASE)
    await house.work()


async def test_what_another_program_nacks_in_a_named_queue_goes_back_to_it() -> None:
    house = House(tasks=(), queues=[REPORTS])
    due(house, queue=REPORTS)
    await house.open()

    await nacked_in_reports(house)

    assert (house.only.state, house.only.attempt, house.only.deaths) == (State.RETRYING, 2, 1)
    [again] = house.messages(REPORTS)
    assert again.headers["cron-attempt"] == 2
    [attempt] = house.records.attempts(house.only.id)
    assert attempt.ending == "interrupted"


async def forge_nacks(house: House, *, queue: str) -> timedelta:
    """Claim that the coming attempt was nacked without end; tell how long it is put off by that."""
    nacked = {"queue": queue, "reason": "rejected", "count": 1_000_000}
    ticket = {"cron-execution-id": house.only.id, "cron-attempt": house.only.attempt}
    house.publish(foreign_body(house), {**ticket, "x-death": [nacked]})
    await house.work()
    return (house.only.next_attempt_at or house.now) - house.now


@pytest.mark.parametrize(("queue", "deaths"), [(REPORTS, 120), (MAIN_QUEUE, 0), ("x", 0)])
async def test_forged_nacks_neither_end_nor_put_off_a_run_that_waits_for_its_own_worker(
    queue: str, deaths: int
) -> None:
    house = House(tasks=(), queues=[REPORTS])
    due(house, queue=REPORTS)
    await house.open()
    house.clock.advance(120 * LEASE)

    put_off = await forge_nacks(house, queue=queue)

    assert (house.only.state, house.only.attempt) == (State.RETRYING, 2)
    assert (put_off, house.only.deaths) == (timedelta(0), deaths)
    assert list(house.records.archive()) == []
