import json

import pytest

from cronhare.application.monitor import FailedMonitor
from cronhare.domain.topology import FAILED_QUEUE, QUARANTINE_QUEUE, ToFailed
from cronhare.ports.broker import Delivery, Envelope, Message
from tests.unit.application.conftest import Lines
from tests.unit.application.house import House

BODY = (
    b'{"type":"report","id":25,"scheduler_id":16,"params_scheduler":"{}",'
    b'"failed_at":"2025-12-12T12:03:39.002Z","failed_reason":"Connection timeout","retry_count":3}'
)


async def watch(house: House, body: bytes) -> None:
    """Let the monitor have one message of the failed queue."""
    house.broker.publish([Envelope(Message(body=body), ToFailed())])
    deliveries: list[Delivery] = []
    await house.connection.consume([FAILED_QUEUE], prefetch=1, on_delivery=deliveries.append)
    await house.settle()
    await FailedMonitor(house.connection).handle(deliveries[0])


async def test_it_says_what_failed_for_good_as_the_seeds_do(lines: Lines) -> None:
    house = House()

    await watch(house, BODY)

    error, details = lines()
    assert error == (
        "[ERROR] [type=report, id=25, scheduler_id=16, retry_count=3, "
        "failed_at=2025-12-12T12:03:39.002Z] ⚠️ PERMANENTLY FAILED TASK"
    )
    head, _, text = details.partition(": ")
    assert head == "[DEBUG] Failed task details"
    assert text == json.dumps(json.loads(BODY), indent=2)


async def test_it_acks_what_it_has_said() -> None:
    house = House()

    await watch(house, BODY)
    await house.connection.close()

    assert house.broker.depth(FAILED_QUEUE) == 0


@pytest.mark.parametrize(
    "body",
    [b"hello", b"{}", b"\xff", BODY[:-1], b'{"x":' + b"[" * 9_000 + b"]" * 9_000 + b"}"],
    ids=["text", "empty", "binary", "cut off", "nested"],
)
async def test_it_parks_what_it_cannot_read(body: bytes) -> None:
    house = House()

    await watch(house, body)

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert parked.body == body
    assert "not a failed message" in str(parked.headers["cron-parked-because"])
