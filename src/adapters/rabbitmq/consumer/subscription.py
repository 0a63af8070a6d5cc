"""One call of `consume`, kept alive: whenever its connection is lost, another one is opened."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from cronhare.application.outages import Outage
from cronhare.domain.queueing.fair_queueing import FairQueueing
from cronhare.domain.queueing.served_queues import DEFAULT_WEIGHT
from cronhare.domain.texts.listing import listed
from cronhare.ports.broker import BrokerUnavailable, Delivery

from ..connection.address import Address
from ..connection.async_connection import open_as
from ..connection.backoff import Backoff
from .connection import ConsumerConnection
from .consumer import QueueRefused, Tag
from .deliveries import DeliveringConnection
from .prefetch import PrefetchLimiter
from .unavailable_queues import UnavailableQueues

log = logging.getLogger(__name__)

#: Seconds between two liveness checks. A connection can look open and consume nothing for ever.
LIVENESS_INTERVAL = 15.0

#: Seconds that a delivery may be held back before it is given back for other workers.
HOLD_BACK_LIMIT = 2.0


class Subscription:
    """Consumes some queues until it is paused or closed.

    A queue that the broker refuses, because it is gone or exclusive to another, is left out and
    tried again by itself, with growing waits, while the others are served.

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
        declare: Callable[[], Awaitable[None]],
        invalidate: Callable[[], None],
        liveness_interval: float,
        answer_timeout: float,
        is_apart: bool = False,
    ) -> None:
        """*declare* makes what it can of the queues, or raises BrokerUnavailable.

        *invalidate* is called when one may be missing, so that the next `declare` looks.

        *liveness_interval* and *answer_timeout* are in seconds. One that *is_apart* tells nobody
        of a lost connection, which the others tell: only of a queue that is refused.
        """
        self.is_apart = is_apart
        self._level = logging.DEBUG if is_apart else logging.WARNING
        self._address = address
        self._queues = tuple(dict.fromkeys(queues))
        # With weights the next of a queue has to be at hand when its turn comes, though all places
        # are its own by now: the broker counts those, too.
        differ = len({weights.get(queue, DEFAULT_WEIGHT) for queue in self._queues}) > 1
        self._prefetch = prefetch * 2 if differ else prefetch
        self._fair = FairQueueing(weights)
        self._on_delivery = on_delivery
        self._declare = declare
        self._invalidate = invalidate
        self._backoff = Backoff()
        self._liveness_interval = liveness_interval
        self._answer_timeout = answer_timeout
        self._loop = asyncio.get_running_loop()
        self._unavailable = UnavailableQueues(self._loop.time)
        self._limiter = PrefetchLimiter(prefetch, self._hand_over, self._loop.time, self._fair)
        self._connection: ConsumerConnection | None = None
        # True once the surplus was given back: nothing is consumed until there is room again.
        self._is_full = False
        self._wake = asyncio.Event()
        self._is_consuming = self._is_starting = self._is_ending = False
        self._settled = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._named = listed(self._queues)
        self._outage = Outage(log, f"Consuming {self._named} again", back="broker.back")

    @property
    def is_live(self) -> bool:
        """Whether it consumes, as the liveness checks have it."""
        connection = self._connection
        return connection is not None and not connection.lost.is_set()

    @property
    def is_wanted(self) -> bool:
        """Whether it was begun, and neither paused nor closed."""
        return self._is_consuming

    @property
    def left_out(self) -> Collection[str]:
        """The queues that are not consumed, while the others are."""
        if self.is_apart and self._is_consuming and not self.is_live:
            return self._queues
        return self._unavailable.names

    async def start(self) -> None:
        """Begin to consume, and keep consuming.

        Raises:
            BrokerUnavailable: not consuming.
        """
        self._is_consuming = self._is_starting = True
        try:
            await self._begin()
        finally:
            self._is_starting = False
        if self._is_consuming:
            self._watch = asyncio.create_task(self._keep_alive(), name="cronhare consuming")
        else:
            await self.pause()  # as it was asked to meanwhile

    def settle(self, tag: Tag, *, acked: bool, requeue: bool = False) -> None:
        """Ack or nack what was handed over; anything else, or a second time, does nothing."""
        if not self._limiter.settle(tag):
            return
        self._settled.set()
        if self._is_live(tag):
            self._backoff.reset()  # a connection alone is no success: it may be lost over and over
        if acked:
            tag.consumer.ack(tag.number)
        else:
            tag.consumer.nack(tag.number, requeue=requeue)
        if self._is_full and self._limiter.has_room:
            self._wake.set()

    async def pause(self) -> None:
        """Take no more deliveries. Those in hand can still be settled."""
        self._is_consuming = False
        await self._end_watch()
        if self._connection is not None:
            await self._connection.cancel()
            self._give_back()

    def resume(self) -> None:
        """Consume again after `pause`, once there is room beside what is in hand."""
        if self._is_consuming or self._is_ending:
            return
        self._is_consuming = self._is_full = True
        if not self._is_starting:
            self._watch = asyncio.create_task(self._keep_alive(), name="cronhare consuming")

    async def end(self) -> None:
        """Take no more deliveries, and close once what is in hand is settled."""
        self._is_ending = True
        await self.pause()
        while self._limiter.has_some and self.is_live:
            self._settled.clear()
            await self._settled.wait()
        await self.close()

    async def close(self) -> None:
        """Stop. What was not settled goes back to its queue."""
        self._is_consuming = False
        self._limiter.take_back()
        connection, self._connection = self._connection, None
        closing = [] if connection is None else [connection.close()]
        await asyncio.gather(self._end_watch(), *closing)

    async def _begin(self) -> None:
        """Connect again without a queue that cost the connection, until those left are consumed.

        Another call of `start` would not know that queue, and would fail over it for ever.

        Raises:
            BrokerUnavailable: not consuming.
        """
        while self._connection is None:
            absent = len(self._unavailable.names)
            try:
                await self._connect()
            except BrokerUnavailable:
                if not absent < len(self._unavailable.names) < len(self._queues):
                    raise

    async def _connect(self) -> None:
        await self._declare()
        connection = ConsumerConnection(
            await open_as(DeliveringConnection, self._address, name="cronhare consuming"),
            prefetch=self._prefetch,
            on_delivery=self._arrived,
            on_dropped=self._wake.set,
            answer_timeout=self._answer_timeout,
        )
        self._is_full = False
        self._limiter.take_back()  # of a connection that is gone: the broker has them back
        self._connection = connection
        try:
            await self._consume(connection)
        except BaseException:
            self._invalidate()  # a queue may be gone
            self._connection = None
            await connection.close()
            raise

    async def _consume(self, connection: ConsumerConnection) -> None:
        """Consume those that are available, in the order in which they are to be served.

        The first is served first: with a prefetch of 1 and long tasks, the others would never be.

        Those left out are tried later, as one may cost the connection, which the others would then
        never have. Where all are left out, they are tried until one is consumed.

        Raises:
            BrokerUnavailable: none is consumed.
        """
        queues, absent = self._fair.order(self._queues), self._unavailable.names
        wanted = [queue for queue in queues if queue not in absent]
        refusals: list[QueueRefused | None] = []
        for queue in wanted or queues:
            refusals.append(await self._try_queue(connection, queue))
            if connection.consuming and not wanted:
                break
        if not connection.consuming:
            raise next(filter(None, refusals), BrokerUnavailable(connection.lost_by))

    async def _try_queue(self, connection: ConsumerConnection, queue: str) -> QueueRefused | None:
        """Consume a queue; if that fails, leave it out for a while, also on the next connection."""
        try:
            await connection.consume(queue)
        except QueueRefused as refusal:
            self._unavailable.note(queue, refusal)
            return refusal
        except BrokerUnavailable as error:  # the queue may have cost the connection
            self._unavailable.note(queue, error)
            raise
        self._unavailable.tried(queue)
        return None

    def _arrived(self, delivery: Delivery) -> None:
        tag = delivery.tag
        assert isinstance(tag, Tag)
        if self._is_consuming and self._is_live(tag) and not self._is_full:
            self._limiter.offer(delivery)
            if self._limiter.held_since is not None:
                self._wake.set()
        else:  # it was under way when we stopped
            tag.consumer.nack(tag.number, requeue=True)

    def _is_live(self, tag: Tag) -> bool:
        return self._connection is not None and self._connection.has(tag.consumer)

    def _hand_over(self, delivery: Delivery) -> None:
        try:
            self._on_delivery(delivery)
        except Exception as error:  # noqa: BLE001 - the event loop reports it
            text = "The handler of a delivery raised"
            self._loop.call_exception_handler({"message": text, "exception": error})

    async def _keep_alive(self) -> None:
        while True:
            connection = self._connection
            if connection is None:
                await self._reconnect()
                continue
            try:
                await self._supervise(connection)
            except BrokerUnavailable as error:
                text = f"Lost the consumer of {self._named} at {self._address}"
                self._outage.lasts(self._level, "broker.lost", text, error)
            except Exception:  # whatever it is, consuming goes on
                log.exception("The consumer met a fault", extra={"action": "broker.fault"})
            if connection.has_dropped:
                self._invalidate()
            self._connection = None
            self._limiter.take_back()
            await connection.abandon()

    async def _reconnect(self) -> None:
        """Connect until it works."""
        while self._connection is None:
            await asyncio.sleep(self._backoff.next())
            try:
                await self._connect()
            except BrokerUnavailable as error:
                text = f"Cannot consume {self._named}, asking again"
                self._outage.lasts(self._level, "broker.unavailable", text, error)
            except Exception:
                log.exception("The consumer met a fault", extra={"action": "broker.fault"})
        self._outage.is_over(logging.DEBUG if self.is_apart else logging.INFO)

    async def _supervise(self, connection: ConsumerConnection) -> None:
        """Release the surplus, retry queues and check liveness, until the connection is lost.

        Raises:
            BrokerUnavailable: it is lost, for this reason.
        """
        check_at = self._loop.time() + self._liveness_interval
        lost = asyncio.create_task(connection.lost.wait())
        try:
            while not connection.lost.is_set():
                self._wake.clear()
                await self._release_surplus(connection)
                await self._retry_unavailable(connection)
                if self._loop.time() >= check_at:
                    await connection.check_liveness()
                    self._backoff.reset()
                    self._unavailable.recovered(connection.consuming)
                    check_at = self._loop.time() + self._liveness_interval
                await self._wait(lost, until=check_at)
        finally:
            lost.cancel()
        raise BrokerUnavailable(connection.lost_by)

    async def _wait(self, lost: "asyncio.Task[bool]", *, until: float) -> None:
        held_since = self._limiter.held_since
        if held_since is not None:
            until = min(until, held_since + HOLD_BACK_LIMIT)
        if self._unavailable.next_at is not None and not self._is_full:
            until = min(until, self._unavailable.next_at)
        woken = asyncio.create_task(self._wake.wait())
        try:
            seconds = max(until - self._loop.time(), 0)
            both = {lost, woken}
            await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()

    async def _release_surplus(self, connection: ConsumerConnection) -> None:
        held_since = self._limiter.held_since
        if held_since is not None and self._loop.time() >= held_since + HOLD_BACK_LIMIT:
            self._is_full = True
            await connection.cancel()
            self._give_back()
        if self._is_full and self._limiter.has_room:
            self._is_full = False
            await self._consume(connection)

    async def _retry_unavailable(self, connection: ConsumerConnection) -> None:
        """Leave out queues that were lost by themselves, and try those that are due."""
        for queue, reason in (await connection.clear_dropped()).items():
            self._unavailable.note(queue, reason)
            self._give_back()  # what is held of it has gone back to it
        due = [] if self._is_full else self._unavailable.due()
        if not due:
            return
        self._invalidate()
        try:
            await self._declare()
        except BrokerUnavailable as error:
            for queue in due:
                self._unavailable.note(queue, error)
        else:
            for queue in due:
                await self._try_queue(connection, queue)

    def _give_back(self) -> None:
        for delivery in self._limiter.take_back():
            tag = delivery.tag
            assert isinstance(tag, Tag)
            tag.consumer.nack(tag.number, requeue=True)

    async def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait({watch})  # awaiting it alone would hide a cancellation of ours
