"""A consumer that stays alive, whatever becomes of its queue, its connection and its broker."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from cronhare.adapters.rabbitmq import subscription, topology
from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker
from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.adapters.rabbitmq.client import ANSWER_TIMEOUT
from cronhare.adapters.rabbitmq.subscription import LIVENESS_INTERVAL
from cronhare.domain.topology import (
    MAIN_QUEUE,
    ToQueue,
)
from cronhare.domain.topology import topology as topology_of
from cronhare.ports.broker import BrokerUnavailable, Envelope, Message, Published
from tests.integration import amqp
from tests.integration.test_async_broker_contract import Hands
from tests.services.finding import free_port
from tests.services.rabbitmq import Server, alarm, cut_all

pytestmark = pytest.mark.integration

RETRY_DELAY = timedelta(milliseconds=300)
REPORTS = "cron_scheduler.reports"

#: Seconds after which something does not happen any more, also on a busy machine.
SOON = 180.0


@asynccontextmanager
async def worker(
    url: str,
    *,
    publish_timeout: float = 5.0,
    liveness_interval: float = LIVENESS_INTERVAL,
    answer_timeout: float = ANSWER_TIMEOUT,
) -> AsyncIterator[AioPikaBroker]:
    broker = AioPikaBroker(
        url,
        retry_delay=RETRY_DELAY,
        queues=[MAIN_QUEUE, REPORTS],
        publish_timeout=publish_timeout,
    )
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(subscription, "LIVENESS_INTERVAL", liveness_interval)
        patching.setattr(subscription, "ANSWER_TIMEOUT", answer_timeout)
        yield broker
        await broker.close()


def publish(url: str, *bodies: bytes, queue: str = MAIN_QUEUE) -> None:
    with amqp.channel(url) as plain:
        for body in bodies:
            plain.basic_publish("", queue, body)


def consumed(url: str, queue: str) -> bool:
    try:
        return amqp.consumers(url, queue) > 0
    except ChannelClosedByBroker:
        return False


async def eventually(happens: Callable[[], bool], *, what: str) -> None:
    give_up_at = time.monotonic() + SOON
    while not happens():
        assert time.monotonic() < give_up_at, f"{what} did not happen"
        await asyncio.sleep(0.02)


async def test_a_queue_that_is_deleted_and_declared_again_at_once_is_consumed(vhost: str) -> None:
    """RabbitMQ can count its consumer for the new queue, and deliver nothing to it any more."""
    task_queue = next(
        each for each in topology_of(retry_delay=RETRY_DELAY).queues if each.name == MAIN_QUEUE
    )
    async with worker(vhost, liveness_interval=0.5) as broker:
        hands = Hands()
        await broker.consume([MAIN_QUEUE], prefetch=4, on_delivery=hands.take)
        publish(vhost, *[b"old"] * 4)
        held = [await hands.next() for _ in range(4)]
        with amqp.channel(vhost) as plain:
            plain.queue_delete(MAIN_QUEUE)
            arguments = topology.queue_arguments(task_queue)
            plain.queue_declare(MAIN_QUEUE, durable=True, arguments=arguments)
        for delivery in held:
            await broker.ack(delivery)

        publish(vhost, *[b"new"] * 9)  # the broker keeps four for the consumer, and waits for acks

        assert await hands.body() == b"new"


async def test_a_queue_that_is_deleted_is_consumed_again_and_what_is_settled_late_settles_nothing(
    vhost: str,
) -> None:
    async with worker(vhost) as broker:
        hands = Hands()
        await broker.consume([MAIN_QUEUE, REPORTS], prefetch=10, on_delivery=hands.take)
        publish(vhost, b"old", b"old", b"old", queue=REPORTS)
        lost = [await hands.next() for _ in range(3)]
        with amqp.channel(vhost) as plain:
            plain.queue_delete(REPORTS)
        await eventually(lambda: consumed(vhost, REPORTS), what="consuming the deleted queue")
        publish(vhost, b"new", b"new", b"new", queue=REPORTS)
        assert await hands.bodies(3) == [b"new"] * 3
        publish(vhost, b"other")
        assert await hands.body() == b"other"

        for delivery in lost:  # of a channel whose number another has now
            await broker.ack(delivery)
        await asyncio.sleep(0.5)

    await eventually(lambda: amqp.depth(vhost, REPORTS) == 3, what="three messages again")


def owned_by_a_connection(plain: BlockingChannel) -> None:
    plain.queue_declare(REPORTS, exclusive=True)


def consumed_by_somebody_alone(plain: BlockingChannel) -> None:
    plain.queue_declare(REPORTS, durable=True)
    plain.basic_consume(REPORTS, print, exclusive=True)


@pytest.mark.parametrize("occupy", [owned_by_a_connection, consumed_by_somebody_alone])
async def test_a_queue_that_somebody_occupies_is_consumed_once_it_is_free_and_the_others_at_once(
    vhost: str, occupy: Callable[[BlockingChannel], None]
) -> None:
    async with worker(vhost) as broker:
        hands = Hands()
        with amqp.channel(vhost) as plain:
            occupy(plain)
            if occupy is owned_by_a_connection:
                with pytest.raises(BrokerUnavailable, match="RESOURCE_LOCKED"):
                    await broker.consume([REPORTS], prefetch=5, on_delivery=print)

            await broker.consume([REPORTS, MAIN_QUEUE], prefetch=5, on_delivery=hands.take)

            publish(vhost, b"innocent")
            assert await hands.body() == b"innocent"
            assert (broker.is_consuming(), [*broker.left_out()]) == (True, [REPORTS])
            plain.queue_delete(REPORTS)
        await eventually(lambda: consumed(vhost, REPORTS), what="consuming the freed queue")
        await eventually(lambda: not broker.left_out(), what="counting the freed queue")
        publish(vhost, b"freed", queue=REPORTS)
        assert await hands.body() == b"freed"


@pytest.mark.parametrize("queues", [[REPORTS, MAIN_QUEUE], [MAIN_QUEUE, REPORTS]])
async def test_a_queue_whose_consumers_cost_the_connection_keeps_no_worker_from_its_start(
    vhost: str, own_rabbitmq: Server, queues: list[str]
) -> None:
    async with worker(vhost) as broker:
        hands = Hands()
        amqp.declare(vhost, retry_delay=RETRY_DELAY, queues=[MAIN_QUEUE, REPORTS])
        with amqp.leaderless(vhost, REPORTS, own_rabbitmq):
            await broker.consume(queues, prefetch=5, on_delivery=hands.take)

            publish(vhost, b"innocent")
            assert await hands.body() == b"innocent"
        await eventually(lambda: consumed(vhost, REPORTS), what="consuming what has a leader")
        publish(vhost, b"led", queue=REPORTS)
        while (body := await hands.body()) == b"innocent":  # the connection was lost meanwhile
            pass
        assert body == b"led"


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_queue_apart_that_is_refused_says_nothing_of_the_others_and_is_told_as_theirs(
    vhost: str, caplog: pytest.LogCaptureFixture, *, is_late: bool
) -> None:
    own = "cron_standalone.pump"
    caplog.set_level(logging.INFO)
    async with worker(vhost, liveness_interval=0.2) as broker:
        hands, apart = Hands(), Hands()
        await broker.consume([MAIN_QUEUE], prefetch=5, on_delivery=hands.take)
        with amqp.channel(vhost) as plain:
            if is_late:
                await broker.consume_apart(own, on_delivery=apart.take)
                await eventually(lambda: consumed(vhost, own), what="consuming apart")
                plain.queue_delete(own)
            plain.queue_declare(own, exclusive=True)
            if not is_late:
                await broker.consume_apart(own, on_delivery=apart.take)

            await eventually(lambda: "queue.unavailable" in actions(caplog), what="a refusal")
            for _ in range(5):
                publish(vhost, b"innocent")
                delivery = await hands.next()
                await broker.ack(delivery)
                assert (broker.is_consuming(), [*broker.left_out()]) == (True, [own])
            plain.queue_delete(own)
        await eventually(lambda: consumed(vhost, own), what="consuming the freed queue")
        await eventually(lambda: not broker.left_out(), what="counting the freed queue")
        publish(vhost, b"freed", queue=own)
        assert await apart.body() == b"freed"
        await eventually(lambda: "queue.back" in actions(caplog), what="telling so")
    assert actions(caplog) == {"queue.unavailable", "queue.back"}


def actions(caplog: pytest.LogCaptureFixture) -> set[str]:
    return {
        getattr(each, "action", "")
        for each in caplog.records
        if each.name.startswith("cronhare.adapters.rabbitmq.subscription")
        and each.levelno > logging.DEBUG
    }


async def test_after_a_reconnect_what_is_still_worked_on_counts_and_it_consumes_and_publishes_again(
    vhost: str, own_rabbitmq: Server
) -> None:
    async with worker(vhost) as broker:
        hands = Hands()
        await broker.consume([MAIN_QUEUE], prefetch=1, on_delivery=hands.take)
        await broker.publish(Envelope(Message(body=b"one"), ToQueue()))
        working_on = await hands.next()

        cut_all(own_rabbitmq)
        await eventually(lambda: amqp.consumers(vhost, MAIN_QUEUE) == 1, what="consuming again")
        await asyncio.sleep(0.3)

        assert hands.seen() == []  # one task is still running, and one is all that was asked for
        await broker.ack(working_on)  # harmless: its channel is gone
        again = await hands.next()
        assert (again.message.body, again.redelivered) == (b"one", True)
        await broker.ack(again)
        answer = await broker.publish(Envelope(Message(body=b"two"), ToQueue()))
        assert answer is Published.CONFIRMED
        assert await hands.body() == b"two"


async def test_a_surplus_is_left_to_other_workers_before_long(vhost: str) -> None:
    async with worker(vhost) as busy, worker(vhost) as idle:
        busy_hands, idle_hands = Hands(), Hands()
        await busy.consume([MAIN_QUEUE, REPORTS], prefetch=1, on_delivery=busy_hands.take)
        publish(vhost, b"long task")
        long_task = await busy_hands.next()
        publish(vhost, b"report", queue=REPORTS)
        await asyncio.sleep(0.2)
        assert amqp.depth(vhost, REPORTS) == 0  # it is held by the busy one

        await idle.consume([REPORTS], prefetch=1, on_delivery=idle_hands.take)

        report = await idle_hands.next(within=5)
        assert report.message.body == b"report"
        publish(vhost, b"second report", queue=REPORTS)
        await busy.ack(long_task)  # and the busy one is back with both queues
        assert await busy_hands.body() == b"second report"
        await idle.ack(report)


async def test_a_frozen_link_is_found_out_by_the_proof_of_life(vhost: str) -> None:
    async with (
        amqp.linked(vhost) as (url, link),
        worker(url, liveness_interval=0.3, answer_timeout=1.0) as broker,
    ):
        hands = Hands()
        await broker.consume([MAIN_QUEUE], prefetch=5, on_delivery=hands.take)

        link.freeze()
        await asyncio.sleep(2)  # the proof is asked for, and not given within a second
        with amqp.channel(vhost) as plain:
            plain.basic_publish("", MAIN_QUEUE, b"meanwhile")
        link.thaw()

        assert await hands.body() == b"meanwhile"
        assert link.connections > 1


async def test_during_an_alarm_consuming_and_acking_go_on_and_a_publish_is_unknown(
    vhost: str, own_rabbitmq: Server
) -> None:
    async with worker(vhost, publish_timeout=1) as broker:
        hands = Hands()
        await broker.consume([MAIN_QUEUE], prefetch=1, on_delivery=hands.take)
        publish(vhost, b"one", b"two", b"three")

        with alarm(own_rabbitmq):
            began = time.monotonic()
            answer = await broker.publish(Envelope(Message(body=b"late"), ToQueue()))
            took = time.monotonic() - began
            await broker.ack(await hands.next())
            await broker.ack(await hands.next())
            last = await hands.next()

        assert (answer, last.message.body) == (Published.UNKNOWN, b"three")
        assert took < SOON
        await broker.ack(last)


async def test_without_a_broker_consuming_is_refused_and_a_publish_is_unknown_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with worker("amqp://guest:secret@127.0.0.1:1/", publish_timeout=10 * SOON) as broker:
        with pytest.raises(BrokerUnavailable):
            await broker.consume([MAIN_QUEUE], prefetch=1, on_delivery=print)
        began = time.monotonic()
        envelope = Envelope(Message(body=b"task", id="1:2"), ToQueue())
        answers = [await broker.publish(envelope) for _ in range(20)]

    assert set(answers) == {Published.UNKNOWN}
    assert time.monotonic() - began < SOON
    assert caplog.text.count("It is unknown whether message 1:2 arrived: ") == len(answers)


async def test_of_several_addresses_one_that_serves_is_found_by_everybody(vhost: str) -> None:
    dead = f"127.0.0.1:{free_port()}"
    several = vhost.replace("@", f"@{dead},").replace("/test", f",127.0.0.1:{free_port()}/test")
    for _ in range(4):  # the order is one of chance
        async with worker(several) as broker:
            scheduler, hands = PikaBroker(several), Hands()
            await broker.consume([MAIN_QUEUE], prefetch=1, on_delivery=hands.take)
            one, two = (Envelope(Message(body=body), ToQueue()) for body in (b"one", b"two"))

            answers = await asyncio.to_thread(scheduler.publish, [one])
            delivery = await hands.next()
            await broker.ack(delivery)
            answers = [*answers, await broker.publish(two)]

            assert answers == [Published.CONFIRMED] * 2
            assert (delivery.message.body, await hands.body()) == (b"one", b"two")
            await asyncio.to_thread(scheduler.close)
        amqp.drain(vhost, MAIN_QUEUE)
