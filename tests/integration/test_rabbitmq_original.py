"""Sharing our queues with programs that know the original topology and nothing of us."""

import asyncio
import json
from datetime import timedelta

import pytest

from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker
from cronhare.domain.messages import Signer, TaskMessage, nacks_of, read, ticket_of
from cronhare.domain.topology import MAIN_QUEUE, RETRY_QUEUE
from cronhare.ports.broker import Delivery
from tests.integration import amqp
from tests.integration.original_worker import OriginalWorker

pytestmark = pytest.mark.integration

RETRY_DELAY = timedelta(milliseconds=300)

#: The task message (S1.8 in docs/compatibility.md), byte for byte.
BODY = json.dumps(
    {"type": "report", "id": 25, "scheduler_id": 16, "params_scheduler": "{}"},
    separators=(",", ":"),
).encode()


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
async def test_what_a_foreign_consumer_nacks_comes_back_and_its_deaths_are_counted_by_ours(
    vhost: str, queue_type: str
) -> None:
    broker = AioPikaBroker(vhost, retry_delay=RETRY_DELAY, queue_type=queue_type)
    amqp.declare(vhost, retry_delay=RETRY_DELAY, queue_type=queue_type)
    with amqp.channel(vhost) as plain:
        plain.basic_publish("", MAIN_QUEUE, BODY)  # by hand: no headers of ours
    seen: asyncio.Queue[Delivery] = asyncio.Queue()
    theirs = OriginalWorker(vhost)

    await asyncio.to_thread(theirs.work, many=2)
    await broker.consume([MAIN_QUEUE], prefetch=1, on_delivery=seen.put_nowait)
    delivery = await asyncio.wait_for(seen.get(), timeout=5)
    await broker.ack(delivery)
    await broker.close()

    headers = delivery.message.headers
    task = read(delivery.message.body, headers, Signer())
    assert theirs.counts == [0, 1]
    assert isinstance(task, TaskMessage)
    assert (sum(nacks_of(headers).values()), ticket_of(headers), task.scheduler_id) == (2, None, 16)
    x_death = headers["x-death"]
    assert isinstance(x_death, list)
    assert [(entry["queue"], entry["reason"], entry["count"]) for entry in x_death] == [
        (RETRY_QUEUE, "expired", 2),
        (MAIN_QUEUE, "rejected", 2),
    ]
