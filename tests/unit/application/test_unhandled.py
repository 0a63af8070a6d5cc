"""Messages that cannot be handled now: in quarantine, or in the waiting room."""

import asyncio
from datetime import timedelta

import attrs
import pytest

from cronhare.application.worker import unhandled as parking
from cronhare.application.worker.unhandled import (
    DEFERRED_FOR,
    LARGEST_PARKED,
    LARGEST_PROPERTIES,
    PUT_OFF_HEADER,
    STUB,
    WAITS_FOR_HEADER,
    defer,
    quarantine_message,
)
from cronhare.domain.topology import (
    FAILED_QUEUE,
    MAIN_QUEUE,
    QUARANTINE_QUEUE,
    RETRY_QUEUE,
    WAITING_QUEUE,
    ToWaiting,
)
from cronhare.ports.broker import Defect, Delivery, Envelope, Message, Published
from tests.ports import ids_of
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import deliver, foreign_body, open_room
from tests.unit.application.house import House

#: Seconds after which something hangs.
HANGS = 60.0


async def in_hand(house: House) -> Delivery:
    """Have the one message that is in the queue delivered, and no other."""
    await house.open()
    await house.settle()
    await house.connection.pause()
    return house.deliveries.pop()


async def park_one(house: House) -> None:
    """Park the one message that is in the queue."""
    await quarantine_message(house.connection, await in_hand(house), "because")


async def test_a_parked_message_keeps_its_bytes_its_headers_and_its_name(lines: Lines) -> None:
    house = House()
    x_death = [{"queue": MAIN_QUEUE, "reason": "rejected", "count": 1}]
    house.publish(b"\x00\xff", {"trace": "abc", "x-death": x_death}, message_id="17")

    await park_one(house)

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert (parked.body, parked.id) == (b"\x00\xff", "17")
    assert parked.headers == {
        "trace": "abc",
        "cron-parked-because": "because",
        "cron-parked-from": MAIN_QUEUE,
        "cron-parked-size": 2,
    }
    assert lines() == [f"[ERROR] Parked a message of {MAIN_QUEUE} in quarantine: because"]


async def test_of_a_large_message_its_beginning_is_kept_and_its_size() -> None:
    house = House()
    headers = {f"h{n}": "x" * 1_000 for n in range(100)}
    house.publish(bytes(LARGEST_PARKED + 1), headers, message_id="x" * 1_000)

    await park_one(house)

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert parked.body == bytes(LARGEST_PARKED)
    assert parked.headers["cron-parked-size"] == LARGEST_PARKED + 1
    assert (len(parked.headers), parked.id) == (8 + 3, "x" * 255)


async def test_what_could_not_be_decoded_is_kept_raw() -> None:
    house = House()
    house.publish(b"body")
    defect = Defect(reason="no reading", size=9, properties=b"\xff" * 20_000)
    unread = attrs.evolve(await in_hand(house), defect=defect)

    await quarantine_message(house.connection, unread, "no reading")

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert parked.headers["cron-parked-size"] == 9
    assert parked.headers["cron-parked-properties"] == b"\xff" * LARGEST_PROPERTIES


@pytest.mark.parametrize("refusal", [Published.UNKNOWN, TypeError("no wire carries it")])
async def test_what_is_not_taken_whole_is_parked_as_a_stub(
    refusal: Published | TypeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House()
    take = house.connection.publish

    async def publish(envelope: Envelope) -> Published:
        if len(envelope.message.body) <= STUB:
            return await take(envelope)
        if isinstance(refusal, TypeError):
            raise refusal
        return refusal

    house.publish(b"x" * 5_000)
    monkeypatch.setattr(house.connection, "publish", publish)

    await park_one(house)

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert (parked.body, parked.headers["cron-parked-size"]) == (b"x" * STUB, 5_000)
    assert house.broker.depth(MAIN_QUEUE) == house.broker.depth(RETRY_QUEUE) == 0


@pytest.mark.parametrize("answer", [Published.RETURNED, ValueError("a fault of ours")])
async def test_what_cannot_be_parked_rests_and_comes_back_and_nobody_says_that_it_was_parked(
    answer: Published | ValueError, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    async def publish(_: Envelope) -> Published:
        if isinstance(answer, ValueError):
            raise answer
        return answer

    house = House()
    house.publish(b"hello")
    monkeypatch.setattr(house.connection, "publish", publish)
    monkeypatch.setattr(parking, "PAUSE", HANGS)

    await asyncio.wait_for(park_one(house), HANGS / 2)  # nothing is held meanwhile

    assert (house.broker.depth(MAIN_QUEUE), house.broker.depth(RETRY_QUEUE)) == (0, 1)
    assert not [line for line in lines() if "Parked" in line]
    [said] = [line for line in lines() if "could not be parked" in line]
    assert said.endswith("because")


async def test_what_no_queue_has_a_copy_of_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def publish(_: Envelope) -> Published:
        return Published.UNKNOWN

    house = House()
    house.publish(b"theirs")
    delivery = await in_hand(house)
    monkeypatch.setattr(house.connection, "publish", publish)

    await defer(house.connection, delivery, "its row is locked")

    assert house.broker.depth(MAIN_QUEUE) == 1


# The waiting room

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
        (7, "names no queue"),
        ("a.*", "cannot name a queue"),
        ("amq.rabbitmq.reply-to.g1h", "begins with amq. is the broker's"),
        (WAITING_QUEUE, "one of the system's own"),
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
