"""What has no row in the ledger rests in a queue of its own, and comes back from there."""

from datetime import timedelta

import pytest

from cronhare.application.worker.unhandled import (
    DEFERRED_FOR,
    PUT_OFF_HEADER,
    WAITS_FOR_HEADER,
)
from cronhare.domain.topology import (
    FAILED_QUEUE,
    MAIN_QUEUE,
    QUARANTINE_QUEUE,
    RETRY_QUEUE,
    WAITING_QUEUE,
    ToWaiting,
)
from cronhare.ports.broker import Envelope, Message, Published
from tests.ports import ids_of
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import deliver, foreign_body
from tests.unit.application.house import House
from tests.unit.application.waiting import open_room

SECOND = timedelta(seconds=1)
REPORTS = "cron_scheduler.reports"


def put_in(house: House, body: bytes = b"one", **headers: object) -> None:
    """Put a message into the waiting room that waits for the main queue, or as *headers* say."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    message = Message(body=body, headers={WAITS_FOR_HEADER: MAIN_QUEUE, **named}, id="theirs")
    assert house.broker.publish([Envelope(message, ToWaiting())]) == [Published.CONFIRMED]


async def test_what_cannot_be_taken_over_waits_under_an_id_that_stays_its_own() -> None:
    house = House()
    house.add(schedule=None)
    house.outage.held_schedules.update(ids_of(house.schedules, ["report"]).values())

    await deliver(house, foreign_body(house), {"trace": "abc", "x-of-the-broker": 1})

    [waiting] = house.messages(WAITING_QUEUE)
    assert waiting.headers == {WAITS_FOR_HEADER: MAIN_QUEUE, PUT_OFF_HEADER: 1, "trace": "abc"}
    assert waiting.id is not None
    assert house.broker.depth(MAIN_QUEUE) == 0


@pytest.mark.parametrize("queue", [MAIN_QUEUE, REPORTS, FAILED_QUEUE])
async def test_it_comes_back_to_its_queue_after_its_rest(queue: str) -> None:
    house = House(queues=[REPORTS])
    await open_room(house)
    put_in(house, cron_waits_for=queue, cron_put_off=1, trace="abc")
    await house.settle()

    house.clock.advance(DEFERRED_FOR - timedelta(milliseconds=1))
    await house.settle()
    before = house.broker.depth(queue)
    house.clock.advance(timedelta(milliseconds=1))
    await house.settle()

    [back] = house.messages(queue)
    assert (before, back.body, back.id) == (0, b"one", "theirs")
    assert back.headers == {PUT_OFF_HEADER: 1, "trace": "abc"}


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        (None, "names no queue"),
        (7, "names no queue"),
        ("", "cannot name a queue"),
        ("a.*", "cannot name a queue"),
        ("amq.rabbitmq.reply-to.g1h", "begins with amq. is the broker's"),
        (WAITING_QUEUE, "one of the system's own"),
        (QUARANTINE_QUEUE, "one of the system's own"),
        (f"{RETRY_QUEUE}.03", "one of the system's own"),
    ],
)
async def test_what_cannot_go_back_anywhere_is_parked_with_the_reason(
    queue: object, reason: str
) -> None:
    house = House()
    await open_room(house)

    put_in(house, cron_waits_for=queue)
    await house.settle()

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert parked.body == b"one"
    assert reason in str(parked.headers["cron-parked-because"])
    assert house.broker.depth(WAITING_QUEUE) == 0


async def test_what_waits_for_a_queue_that_is_not_there_goes_there_once_it_is(
    lines: Lines,
) -> None:
    house = House()
    await open_room(house)
    put_in(house, cron_waits_for=REPORTS)
    put_in(house, b"innocent")
    await house.settle()
    await pass_by(house, seconds=31)
    told = [line for line in lines() if f"There is no queue {REPORTS}" in line]

    house.broker.declare([REPORTS])
    await pass_by(house, seconds=31)

    assert [each.body for each in house.messages(MAIN_QUEUE)] == [b"innocent"]
    assert [each.body for each in house.messages(REPORTS)] == [b"one"]
    assert len(told) == 1


async def pass_by(house: House, *, seconds: int) -> None:
    for _ in range(seconds):
        house.clock.advance(SECOND)
        await house.settle()


async def test_at_the_shutdown_what_rests_is_given_back_at_once() -> None:
    house = House()
    opened = await open_room(house)
    for _ in range(3):
        put_in(house, cron_put_off=6)
    await house.settle()

    await opened.connection.pause()
    opened.room.drain()
    await house.settle()

    assert all(task.done() for task in opened.resting)
    assert house.broker.depth(WAITING_QUEUE) == 3
    assert house.broker.depth(MAIN_QUEUE) == 0
