"""Messages that no client would encode: each is met once, and what is behind it comes at once."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker
from cronhare.application.worker.unhandled import LARGEST_PARKED, quarantine_message
from cronhare.domain.topology import MAIN_QUEUE, QUARANTINE_QUEUE
from cronhare.ports.broker import Delivery
from tests.integration import amqp
from tests.services.frames import long, properties, raw_channel, short, table

pytestmark = pytest.mark.integration

SOON = 60.0

DEEP = b"V"
for _ in range(600):
    DEEP = b"A" + long(DEEP)

HOSTILE = {
    "timestamp in microseconds": properties(timestamp=struct.pack(">Q", 1_700_000_000_000_000)),
    "timestamp in nanoseconds": properties(timestamp=struct.pack(">Q", 1_700_000_000_000_000_000)),
    "message_id that is no UTF-8": properties(message_id=short(b"\xff\xfe")),
    "header name that is no UTF-8": properties(headers=long(short(b"\xff") + b"V")),
    "arrays nested 600 deep": properties(headers=table(deep=DEEP)),
}


@asynccontextmanager
async def worker(url: str) -> AsyncIterator[AioPikaBroker]:
    broker = AioPikaBroker(url, retry_delay=timedelta(seconds=1))
    yield broker
    await broker.close()


UNPARKED = {
    "a body of 16 MiB": (properties(), bytes(16 * 2**20)),  # the largest that RabbitMQ 4 takes
    "a header that is no UTF-8": (properties(headers=table(x=b"S" + long(b"\xff"))), b"{"),
    "a byte array": (properties(headers=table(x=b"x" + long(b"\xff"))), b"{"),
    "-2^63": (properties(headers=table(x=b"l\x80" + bytes(7))), b"{"),
    "a large float": (properties(headers=table(x=b"d" + struct.pack(">d", 1e300))), b"{"),
    "an early time": (properties(headers=table(x=b"T" + b"\xff" * 8)), b"{"),
    "131 kB of headers": (
        properties(headers=long(b"".join(short(b"%d" % n) + b"t\x01" for n in range(17_000)))),
        b"{",
    ),
    "one header of 130 kB": (properties(headers=table(x=b"S" + long(b"x" * 130_000))), b"{"),
    "an id of 1,020 bytes when it is shown": (properties(message_id=short(b"\xff" * 255)), b"{"),
    "arrays nested 600 deep": (HOSTILE["arrays nested 600 deep"], b"{"),
}


@pytest.mark.parametrize("hostile", UNPARKED.values(), ids=UNPARKED.keys())
async def test_whatever_a_message_is_made_of_it_can_be_parked(
    vhost: str, hostile: tuple[bytes, bytes]
) -> None:
    seen: asyncio.Queue[Delivery] = asyncio.Queue()
    raw_properties, body = hostile
    async with worker(vhost) as broker:
        amqp.declare(vhost, retry_delay=timedelta(seconds=1))
        with raw_channel(vhost) as raw:
            raw.publish(MAIN_QUEUE.encode(), raw_properties, body)
        await broker.consume([MAIN_QUEUE], prefetch=1, on_delivery=seen.put_nowait)
        await quarantine_message(broker, await asyncio.wait_for(seen.get(), SOON), "because")

    with amqp.channel(vhost) as plain:
        _, parked, kept = plain.basic_get(QUARANTINE_QUEUE, auto_ack=True)
    assert parked is not None
    assert parked.headers["cron-parked-because"] == "because"
    assert parked.headers["cron-parked-size"] == len(body)
    assert kept == body[:LARGEST_PARKED]
    assert amqp.depth(vhost, MAIN_QUEUE) == 0
