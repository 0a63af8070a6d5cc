import asyncio

import attrs
import pytest

from cronhare.application.worker import unhandled as parking
from cronhare.application.worker.unhandled import (
    LARGEST_PARKED,
    LARGEST_PROPERTIES,
    STUB,
    quarantine_message,
)
from cronhare.domain.topology import MAIN_QUEUE, QUARANTINE_QUEUE, RETRY_QUEUE
from cronhare.ports.broker import Defect, Envelope, Published
from tests.unit.application.conftest import Lines
from tests.unit.application.house import House

#: Seconds after which something hangs.
HANGS = 60.0


async def park_one(house: House) -> None:
    """Park the one message that is in the queue."""
    await house.open()
    await house.settle()
    await house.connection.pause()
    await quarantine_message(house.connection, house.deliveries.pop(), "because")


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
    await house.open()
    await house.settle()
    await house.connection.pause()
    defect = Defect(reason="no reading", size=9, properties=b"\xff" * 20_000)

    await quarantine_message(
        house.connection, attrs.evolve(house.deliveries.pop(), defect=defect), "no reading"
    )

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


@pytest.mark.parametrize(
    "answer", [Published.RETURNED, Published.UNKNOWN, ValueError("a fault of ours")]
)
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
