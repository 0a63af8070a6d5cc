"""What others do to our queues: pills and nacks."""

import asyncio
import json
import time
from contextlib import closing
from datetime import timedelta
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker
from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.adapters.rabbitmq.topology import DELIVERY_LIMIT
from cronhare.domain.messages import (
    Signer,
    TaskMessage,
    nacks_of,
    read,
    ticket_of,
    was_overdelivered,
)
from cronhare.domain.topology import (
    FAILED_QUEUE,
    MAIN_QUEUE,
    QUARANTINE_QUEUE,
    RETRY_QUEUE,
)
from cronhare.ports.broker import Delivery
from tests.integration import amqp
from tests.integration.original_worker import OriginalWorker
from tests.services.rabbitmq import Server

pytestmark = pytest.mark.integration

RETRY_DELAY = timedelta(milliseconds=300)
REPORTS = "cron_scheduler.reports"
PILL, INNOCENT = b'{"pill": true}', b'{"innocent": true}'


@pytest.fixture
def declared(vhost: str) -> str:
    broker = PikaBroker(vhost, retry_delay=RETRY_DELAY, queues=(REPORTS,))
    broker.declare((REPORTS,))
    broker.close()
    return vhost


def crash_on(url: str, queue: str, pill: bytes, *, times: int) -> None:
    """Be a worker that its pill ends again and again: what it holds comes back to the queue."""
    with amqp.channel(url) as plain:
        plain.basic_qos(prefetch_count=1)
        for _ in range(times):
            frame, _, body = next(plain.consume(queue, inactivity_timeout=5))
            if frame is None:
                return
            assert body == pill
            plain.basic_reject(frame.delivery_tag, requeue=True)


def taken(plain: BlockingChannel, queue: str, *, within: float = 5.0) -> Any:  # noqa: ANN401 - pika's
    give_up_at = time.monotonic() + within
    while time.monotonic() < give_up_at:
        frame, properties, body = plain.basic_get(queue, auto_ack=True)
        if frame is not None:
            return properties, body
        time.sleep(0.02)
    return None, None


@pytest.mark.parametrize("queue", [MAIN_QUEUE, REPORTS])
def test_what_is_delivered_too_often_is_quarantined_and_does_not_come_back(
    declared: str, queue: str
) -> None:
    with amqp.channel(declared) as plain:
        plain.basic_publish("", queue, PILL, pika.BasicProperties(message_id="7-1"))
        plain.basic_publish("", queue, INNOCENT)

    crash_on(declared, queue, PILL, times=DELIVERY_LIMIT + 1)

    with amqp.channel(declared) as plain:
        properties, body = taken(plain, QUARANTINE_QUEUE)
        time.sleep(2 * RETRY_DELAY.total_seconds())
        _, next_body = taken(plain, queue)
        # From a named queue a copy comes back through the main one, as whatever is nacked does.
        copy, _ = taken(plain, MAIN_QUEUE, within=0.2)
        left = {
            name: plain.queue_declare(name, passive=True).method.message_count
            for name in (MAIN_QUEUE, REPORTS, RETRY_QUEUE, FAILED_QUEUE, QUARANTINE_QUEUE)
        }
    assert (body, properties.message_id) == (PILL, "7-1")
    [death] = properties.headers["x-death"]
    assert (death["queue"], death["reason"]) == (queue, "delivery_limit")
    assert next_body == INNOCENT
    assert set(left.values()) == {0}, json.dumps(left)
    assert (copy is None) == (queue == MAIN_QUEUE)
    assert copy is None or was_overdelivered(copy.headers)


def test_classic_queues_keep_what_failed_where_the_default_type_is_quorum(
    vhost: str, own_rabbitmq: Server
) -> None:
    """RabbitMQ 4 deletes at the 21st delivery, from quorum queues without a limit of their own."""
    url = amqp.quorum_by_default(vhost, own_rabbitmq)
    with closing(PikaBroker(url, queue_type="classic")) as broker:
        broker.declare([])
    with amqp.channel(url) as plain:
        plain.basic_publish("", FAILED_QUEUE, PILL)

    crash_on(url, FAILED_QUEUE, PILL, times=30)

    with amqp.channel(url) as plain:
        _, body = taken(plain, FAILED_QUEUE)
    assert body == PILL


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
