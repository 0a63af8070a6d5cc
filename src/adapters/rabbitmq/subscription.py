"""One call of `consume`, kept alive: whenever its connection is lost, another one is opened."""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress

import attrs
from aio_pika.abc import AbstractChannel

from cronhare.application.outages import Outage
from cronhare.domain.texts.words import listed
from cronhare.domain.topology import DEFAULT_WEIGHT, FairQueueing
from cronhare.ports.broker import BrokerUnavailable, Delivery

from .client import ANSWER_TIMEOUT, Address, LeftOut, backoff
from .consumer import (
    Consumer,
    DeliveringConnection,
    QueueRefused,
    open_connection,
    translate_errors,
)
from .deliveries import Incoming, PrefetchLimiter
from .topology import TopologyDeclarer

log = logging.getLogger(__name__)

#: Seconds between two liveness checks. A connection can look open and consume nothing for ever.
LIVENESS_INTERVAL = 15.0

#: Seconds that a delivery may be held back before it is given back for other workers.
HOLD_BACK_LIMIT = 2.0


@attrs.frozen(eq=False)
class Tag:
    """What a delivery is settled with."""

    subscription: "Subscription"
    consumer: Consumer
    number: int


class Subscription:
    """Consumes some queues until it is paused or closed.

    A queue that the broker refuses, because it is gone or exclusive to another, is left out and
    tried again by itself, with growing waits, while the others are served. It is remembered until
    its consumer has passed a liveness check: one that is deleted over and over is declared more and
    more slowly.

    What was in hand when a connection was lost still counts against the prefetch until it is
    settled: its task may be running.
    """

    def __init__(
        self,
        address: Address,
        queues: Sequence[str],
        *,
        weights: Mapping[str, int],
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        declarer: TopologyDeclarer,
        is_apart: bool = False,
    ) -> None:
        """One that *is_apart* logs no lost connection, as the others do: only a refused queue."""
        self.is_apart = is_apart
        self.is_wanted = False  # it was begun, and neither paused nor closed
        self._level = logging.DEBUG if is_apart else logging.WARNING
        self._address = address
        self._queues = tuple(dict.fromkeys(queues))
        # With weights the next of a queue has to be at hand when its turn comes, though all places
        # are its own by now: the broker counts those, too.
        differ = len({weights.get(queue, DEFAULT_WEIGHT) for queue in self._queues}) > 1
        self._prefetch = prefetch * 2 if differ else prefetch
        self._fair = FairQueueing(weights)
        self._declarer = declarer
        self._waits = backoff()
        self._loop = asyncio.get_running_loop()
        self._limiter = PrefetchLimiter(prefetch, on_delivery, self._loop.time, self._fair)
        self._connection: DeliveringConnection | None = None
        self._asking: AbstractChannel | None = None
        self._consumers: dict[str, Consumer] = {}  # of the connection, by queue
        self._unavailable: dict[str, LeftOut] = {}  # by queue
        # True once the surplus was given back: nothing is consumed until there is room again.
        self._is_full = False
        self._wake = asyncio.Event()
        self._is_starting = self._is_ending = False
        self._watch: asyncio.Task[None] | None = None
        self._named = listed(self._queues)
        self._outage = Outage(log, f"Consuming {self._named} again", back="broker.back")

    @property
    def is_live(self) -> bool:
        """Whether it consumes, as the liveness checks have it."""
        consumers = [*self._consumers.values()]  # at once: another thread may ask
        return self._connection is not None and any(each.lost_by is None for each in consumers)

    @property
    def left_out(self) -> Collection[str]:
        """The queues that are not consumed, while the others are; any thread may ask."""
        if self.is_apart and self.is_wanted and not self.is_live:
            return self._queues
        return self._retries.keys()

    async def start(self) -> None:
        """Begin to consume, and keep consuming.

        Raises:
            BrokerUnavailable: not consuming.
        """
        self.is_wanted = self._is_starting = True
        try:
            # A queue that cost the connection is left out next time: another call of `start` would
            # not know that queue, and would fail over it for ever.
            while self._connection is None:
                absent = len(self._retries)
                try:
                    await self._connect()
                except BrokerUnavailable:
                    if not absent < len(self._retries) < len(self._queues):
                        raise
        finally:
            self._is_starting = False
        if self.is_wanted:
            self._begin_watch()
        else:
            await self.pause()  # as it was asked to meanwhile

    def settle(self, tag: Tag, *, acked: bool, requeue: bool = False) -> None:
        """Ack or nack what was handed over; anything else, or a second time, does nothing.

        Once its channel is lost the message comes again in any case.
        """
        if not self._limiter.settle(tag):
            return
        if self._has(tag.consumer):
            self._waits.reset()  # a connection alone is no success: it may be lost over and over
        if acked:
            tag.consumer.acks.ack(tag.number)
        else:
            tag.consumer.nack(tag.number, requeue=requeue)
        if self._is_ending or (self._is_full and self._limiter.has_room):
            self._wake.set()

    async def pause(self) -> None:
        """Take no more deliveries. Those in hand can still be settled."""
        self.is_wanted = False
        await self._end_watch()
        await self._cancel()

    def resume(self) -> None:
        """Consume again after `pause`, once there is room beside what is in hand."""
        if self.is_wanted or self._is_ending:
            return
        self.is_wanted = self._is_full = True
        if not self._is_starting:
            self._begin_watch()

    async def end(self) -> None:
        """Take no more deliveries, and close once what is in hand is settled."""
        self._is_ending = True
        await self.pause()
        while self._limiter.has_some and self.is_live:
            self._wake.clear()
            await self._wake.wait()
        await self.close()

    async def close(self) -> None:
        """Stop. What was not settled goes back to the heads of its queues, in order."""
        self.is_wanted = False
        self._limiter.take_back()
        connection, self._connection = self._connection, None
        closing = () if connection is None else (connection.close(),)
        await asyncio.gather(self._end_watch(), *closing)

    async def _connect(self) -> DeliveringConnection:
        await in_thread(self._declarer.refresh)
        connection = await open_connection(self._address, name="cronhare consuming")
        connection.close_callbacks.add(lambda *_: self._wake.set())
        self._is_full = False
        self._limiter.take_back()  # of a connection that is gone: the broker has them back
        self._connection, self._asking, self._consumers = connection, None, {}
        try:
            await self._consume(connection)
        except BaseException:
            self._declarer.invalidate()  # a queue may be gone
            self._connection = None
            await connection.close()
            raise
        return connection

    async def _consume(self, connection: DeliveringConnection) -> None:
        """Consume those that are available, in the order in which they are to be served.

        The first is served first: with a prefetch of 1 and long tasks, the others would never be.

        Those left out are tried later, as one may cost the connection, which the others would then
        never have. Where all are left out, they are tried until one is consumed.

        Raises:
            BrokerUnavailable: none is consumed.
        """
        queues, absent = self._fair.order(self._queues), self._retries
        wanted = [queue for queue in queues if queue not in absent]
        why = BrokerUnavailable("the connection was closed")
        for queue in wanted or queues:
            try:
                await self._try_queue(connection, queue)
            except QueueRefused as refusal:
                why = refusal
            else:
                if not wanted:
                    break
        if not any(each.is_consuming for each in self._consumers.values()):
            raise why

    async def _try_queue(self, connection: DeliveringConnection, queue: str) -> None:
        """Consume a queue; if that fails, leave it out for a while, also on the next connection.

        Raises:
            QueueRefused: the other queues are consumed as before.
            BrokerUnavailable: the queue may have cost the connection.
        """
        try:
            if queue not in self._consumers:
                self._consumers[queue] = await Consumer.open(
                    connection,
                    queue,
                    prefetch=self._prefetch,
                    on_delivery=self._arrived,
                    on_lost=self._wake.set,
                )
            await self._consumers[queue].consume()
        except BrokerUnavailable as error:
            self._consumers.pop(queue, None)
            self._leave_out(queue, error)
            raise
        if queue in self._unavailable:
            self._unavailable[queue].retry_at = None

    def _leave_out(self, queue: str, why: object) -> None:
        if queue not in self._unavailable:
            outage = Outage(log, f"Consuming {queue} again", back="queue.back")
            self._unavailable[queue] = LeftOut(outage)
        text = f"Cannot consume {queue}, which is left out and tried again"
        self._unavailable[queue].fails(self._loop.time(), text, why)

    @property
    def _retries(self) -> dict[str, float]:
        known = self._unavailable.copy()  # at once: another thread may ask
        return {queue: each.retry_at for queue, each in known.items() if each.retry_at is not None}

    def _arrived(self, consumer: Consumer, incoming: Incoming) -> None:
        if not self.is_wanted or self._is_full or not self._has(consumer):
            consumer.nack(incoming.tag, requeue=True)  # it was under way when we stopped
            return
        message, defect = incoming.message()
        self._limiter.offer(
            Delivery(
                message=message,
                queue=consumer.queue,
                redelivered=incoming.redelivered,
                tag=Tag(self, consumer, incoming.tag),
                defect=defect,
            )
        )
        if self._limiter.held_since is not None:
            self._wake.set()

    def _has(self, consumer: Consumer) -> bool:
        return self._connection is not None and self._consumers.get(consumer.queue) is consumer

    async def _keep_alive(self) -> None:
        while True:
            try:
                connection = self._connection or await self._connect()
                self._outage.is_over(logging.DEBUG if self.is_apart else logging.INFO)
                await self._supervise(connection)
            except BrokerUnavailable as error:
                action, text = "broker.lost", f"Lost the consumer of {self._named}"
                if self._connection is None:
                    action, text = "broker.unavailable", f"Cannot consume {self._named}"
                self._outage.lasts(self._level, action, f"{text} at {self._address}", error)
            except Exception:  # whatever it is, consuming goes on
                log.exception("The consumer met a fault", extra={"action": "broker.fault"})
            ended, self._connection = self._connection, None
            if ended is not None:
                self._limiter.take_back()
                await ended.close()
            await asyncio.sleep(self._waits.next())

    async def _supervise(self, connection: DeliveringConnection) -> None:
        """Leave out lost queues, release the surplus, retry and check liveness, again and again.

        Raises:
            BrokerUnavailable: the connection is lost, for this reason.
        """
        check_at = self._loop.time() + LIVENESS_INTERVAL
        while True:
            self._wake.clear()
            if self._loop.time() >= check_at:
                await self._check_liveness(connection)
                check_at = self._loop.time() + LIVENESS_INTERVAL
            await self._leave_out_lost(connection)
            await self._release_surplus(connection)
            await self._retry_unavailable(connection)
            until = [check_at, *([] if self._is_full else self._retries.values())]
            if (held_since := self._limiter.held_since) is not None:
                until.append(held_since + HOLD_BACK_LIMIT)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(until)):
                    await self._wake.wait()

    async def _check_liveness(self, connection: DeliveringConnection) -> None:
        """Ask the broker whether it still knows our consumers. One that it does not is lost.

        Raises:
            BrokerUnavailable: it does not answer.
        """
        for consumer in [each for each in self._consumers.values() if each.is_consuming]:
            reason = await self._why_dead(connection, consumer)
            if reason is not None and consumer.is_consuming:
                consumer.lose(reason, alone=True)
        for queue in [name for name, each in self._consumers.items() if each.is_consuming]:
            self._waits.reset()
            if (unavailable := self._unavailable.pop(queue, None)) is not None:
                unavailable.outage.is_over()

    async def _why_dead(self, connection: DeliveringConnection, consumer: Consumer) -> str | None:
        """Ask on a channel kept for that: for a queue that is gone it costs the channel.

        After a queue was deleted, and declared again at once, RabbitMQ can count the old consumer
        for the new queue, and deliver nothing to it for ever.
        """
        queue = consumer.queue
        try:
            with translate_errors(f"proving that the consumer of {queue} lives"):
                async with asyncio.timeout(ANSWER_TIMEOUT):
                    if self._asking is None or self._asking.is_closed:
                        self._asking = await connection.channel(publisher_confirms=False)
                    found = (
                        await self._asking.declare_queue(queue, passive=True)
                    ).declaration_result
        except QueueRefused as error:
            return str(error)
        if not found.consumer_count:
            return f"the broker knows no consumer of {queue}"
        is_passed_over = bool(found.message_count) and consumer.acks.is_idle
        before, consumer.passed_over = consumer.passed_over, None
        if is_passed_over:
            consumer.passed_over = consumer.latest
            if before == consumer.latest:
                return f"messages wait in {queue}, and the broker delivers none"
        return None

    async def _leave_out_lost(self, connection: DeliveringConnection) -> None:
        """Leave out queues that were lost by themselves.

        Raises:
            BrokerUnavailable: the connection is lost, or the last of them.
        """
        for consumer in [each for each in self._consumers.values() if each.lost_by is not None]:
            if consumer.is_lost_alone:
                self._declarer.invalidate()  # the queue may be gone
            del self._consumers[consumer.queue]
            if not (consumer.is_lost_alone and self._consumers):
                raise BrokerUnavailable(consumer.lost_by)
            await consumer.close()
            self._leave_out(consumer.queue, consumer.lost_by)
            self._give_back()  # what is held of it has gone back to it
        if connection.is_closed:
            raise BrokerUnavailable("the connection was closed")

    async def _release_surplus(self, connection: DeliveringConnection) -> None:
        held_since = self._limiter.held_since
        if held_since is not None and self._loop.time() >= held_since + HOLD_BACK_LIMIT:
            self._is_full = True
            await self._cancel()
        if self._is_full and self._limiter.has_room:
            self._is_full = False
            await self._consume(connection)

    async def _retry_unavailable(self, connection: DeliveringConnection) -> None:
        retries, now = self._retries, self._loop.time()
        due = [] if self._is_full else [each for each, at in retries.items() if at <= now]
        if not due:
            return
        self._declarer.invalidate()
        try:
            await in_thread(self._declarer.refresh)
        except BrokerUnavailable as error:
            for queue in due:
                self._leave_out(queue, error)
        else:
            for queue in due:
                with suppress(QueueRefused):
                    await self._try_queue(connection, queue)

    async def _cancel(self) -> None:
        with suppress(BrokerUnavailable):
            for consumer in [*self._consumers.values()]:
                await consumer.cancel()
        self._give_back()

    def _give_back(self) -> None:
        for delivery in self._limiter.take_back():
            tag = delivery.tag
            assert isinstance(tag, Tag)
            tag.consumer.nack(tag.number, requeue=True)

    def _begin_watch(self) -> None:
        self._watch = asyncio.create_task(self._keep_alive(), name="cronhare consuming")

    async def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait({watch})  # awaiting it alone would hide a cancellation of ours


async def in_thread(call: Callable[[], None]) -> None:
    """Call what asks the broker in a thread that no end of the process waits for."""
    done = Future[None]()
    done.set_running_or_notify_cancel()  # who stops waiting for it does not cancel it

    def run() -> None:
        try:
            call()
            done.set_result(None)
        except BaseException as error:  # noqa: BLE001 - the waiting task raises it
            done.set_exception(error)

    threading.Thread(target=run, name="cronhare asking", daemon=True).start()
    await asyncio.wrap_future(done)
