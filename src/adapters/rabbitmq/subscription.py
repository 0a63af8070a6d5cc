"""One call of `consume`, kept alive: whenever its connection is lost, another one is opened."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from cronhare.application.outages import Outage
from cronhare.domain.texts.words import listed
from cronhare.domain.topology import DEFAULT_WEIGHT, FairQueueing
from cronhare.ports.broker import BrokerUnavailable, Delivery

from .client import Address, LeftOut, backoff
from .consumer import ConsumerConnection, PrefetchLimiter, QueueRefused, Tag
from .deliveries import open_connection

log = logging.getLogger(__name__)

#: Seconds between two liveness checks. A connection can look open and consume nothing for ever.
LIVENESS_INTERVAL = 15.0

#: Seconds that a delivery may be held back before it is given back for other workers.
HOLD_BACK_LIMIT = 2.0


class UnavailableQueues:
    """Queues that cannot be consumed for now. Each is tried again by itself, with growing waits.

    One is remembered until its consumer has passed a liveness check. A loss before that goes on
    with the same waits: a queue that is deleted over and over is declared more and more slowly.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """*now* counts seconds."""
        self._now = now
        self._unavailable: dict[str, LeftOut] = {}

    def note(self, queue: str, why: object) -> None:
        """A queue was refused or lost: leave it out for a while."""
        if queue not in self._unavailable:
            outage = Outage(log, f"Consuming {queue} again", back="queue.back")
            self._unavailable[queue] = LeftOut(outage)
        text = f"Cannot consume {queue}, which is left out and tried again"
        self._unavailable[queue].fails(self._now(), text, why)

    def tried(self, queue: str) -> None:
        """It is consumed, and has not passed a liveness check yet."""
        if queue in self._unavailable:
            self._unavailable[queue].retry_at = None

    def recovered(self, queues: Iterable[str]) -> None:
        """Their consumers have passed a liveness check."""
        for queue in queues:
            if (unavailable := self._unavailable.pop(queue, None)) is not None:
                unavailable.outage.is_over()

    @property
    def retries(self) -> dict[str, float]:
        """All that are left out, with the times of their retries; any thread may ask."""
        known = self._unavailable.copy()  # at once: another thread may ask
        return {queue: each.retry_at for queue, each in known.items() if each.retry_at is not None}

    def due(self) -> list[str]:
        return [queue for queue, retry_at in self.retries.items() if retry_at <= self._now()]


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
        is_apart: bool = False,
    ) -> None:
        """*declare* makes what it can of the queues, or raises BrokerUnavailable.

        *invalidate* is called when one may be missing, so that the next `declare` looks. One that
        *is_apart* logs no lost connection, which the others log: only a queue that is refused.
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
        self._waits = backoff()
        self._loop = asyncio.get_running_loop()
        self._unavailable = UnavailableQueues(self._loop.time)
        self._limiter = PrefetchLimiter(prefetch, self._hand_over, self._loop.time, self._fair)
        self._connection: ConsumerConnection | None = None
        # True once the surplus was given back: nothing is consumed until there is room again.
        self._is_full = False
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._is_starting = self._is_ending = False
        self.is_wanted = False  # it was begun, and neither paused nor closed
        self._watch: asyncio.Task[None] | None = None
        self._named = listed(self._queues)
        self._outage = Outage(log, f"Consuming {self._named} again", back="broker.back")

    @property
    def is_live(self) -> bool:
        """Whether it consumes, as the liveness checks have it."""
        connection = self._connection
        return connection is not None and not connection.lost.is_set()

    @property
    def left_out(self) -> Collection[str]:
        """The queues that are not consumed, while the others are."""
        if self.is_apart and self.is_wanted and not self.is_live:
            return self._queues
        return self._unavailable.retries.keys()

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
                absent = len(self._unavailable.retries)
                try:
                    await self._connect()
                except BrokerUnavailable:
                    if not absent < len(self._unavailable.retries) < len(self._queues):
                        raise
        finally:
            self._is_starting = False
        if self.is_wanted:
            self._begin_watch()
        else:
            await self.pause()  # as it was asked to meanwhile

    def settle(self, tag: Tag, *, acked: bool, requeue: bool = False) -> None:
        """Ack or nack what was handed over; anything else, or a second time, does nothing."""
        if not self._limiter.settle(tag):
            return
        self._settled.set()
        if self._is_live(tag):
            self._waits.reset()  # a connection alone is no success: it may be lost over and over
        if acked:
            tag.ack()
        else:
            tag.nack(requeue=requeue)
        if self._is_full and self._limiter.has_room:
            self._wake.set()

    async def pause(self) -> None:
        """Take no more deliveries. Those in hand can still be settled."""
        self.is_wanted = False
        await self._end_watch()
        if self._connection is not None:
            await self._connection.cancel()
            self._give_back()

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
            self._settled.clear()
            await self._settled.wait()
        await self.close()

    async def close(self) -> None:
        """Stop. What was not settled goes back to its queue."""
        self.is_wanted = False
        self._limiter.take_back()
        connection, self._connection = self._connection, None
        closing = [] if connection is None else [connection.close()]
        await asyncio.gather(self._end_watch(), *closing)

    async def _connect(self) -> ConsumerConnection:
        await self._declare()
        connection = ConsumerConnection(
            await open_connection(self._address, name="cronhare consuming"),
            prefetch=self._prefetch,
            on_delivery=self._arrived,
            on_dropped=self._on_dropped,
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
        return connection

    async def _consume(self, connection: ConsumerConnection) -> None:
        """Consume those that are available, in the order in which they are to be served.

        The first is served first: with a prefetch of 1 and long tasks, the others would never be.

        Those left out are tried later, as one may cost the connection, which the others would then
        never have. Where all are left out, they are tried until one is consumed.

        Raises:
            BrokerUnavailable: none is consumed.
        """
        queues, absent = self._fair.order(self._queues), self._unavailable.retries
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
        except BrokerUnavailable as error:
            self._unavailable.note(queue, error)
            if isinstance(error, QueueRefused):
                return error
            raise  # the queue may have cost the connection
        self._unavailable.tried(queue)
        return None

    def _arrived(self, delivery: Delivery) -> None:
        tag = delivery.tag
        assert isinstance(tag, Tag)
        if self.is_wanted and self._is_live(tag) and not self._is_full:
            self._limiter.offer(delivery)
            if self._limiter.held_since is not None:
                self._wake.set()
        else:  # it was under way when we stopped
            tag.nack(requeue=True)

    def _is_live(self, tag: Tag) -> bool:
        return self._connection is not None and self._connection.has(tag)

    def _hand_over(self, delivery: Delivery) -> None:
        try:
            self._on_delivery(delivery)
        except Exception as error:  # noqa: BLE001 - the event loop reports it
            text = "The handler of a delivery raised"
            self._loop.call_exception_handler({"message": text, "exception": error})

    def _on_dropped(self) -> None:
        self._invalidate()  # the queue may be gone
        self._wake.set()

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
                await ended.abandon()
            await asyncio.sleep(self._waits.next())

    async def _supervise(self, connection: ConsumerConnection) -> None:
        """Release the surplus, retry queues and check liveness, until the connection is lost.

        Raises:
            BrokerUnavailable: it is lost, for this reason.
        """
        check_at = self._loop.time() + LIVENESS_INTERVAL
        lost = asyncio.create_task(connection.lost.wait())
        try:
            while not connection.lost.is_set():
                self._wake.clear()
                await self._release_surplus(connection)
                await self._retry_unavailable(connection)
                if self._loop.time() >= check_at:
                    await connection.check_liveness()
                    self._waits.reset()
                    self._unavailable.recovered(connection.consuming)
                    check_at = self._loop.time() + LIVENESS_INTERVAL
                await self._wait(lost, until=check_at)
        finally:
            lost.cancel()
        raise BrokerUnavailable(connection.lost_by)

    async def _wait(self, lost: "asyncio.Task[bool]", *, until: float) -> None:
        held_since = self._limiter.held_since
        if held_since is not None:
            until = min(until, held_since + HOLD_BACK_LIMIT)
        if not self._is_full:
            until = min([until, *self._unavailable.retries.values()])
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
            tag.nack(requeue=True)

    def _begin_watch(self) -> None:
        self._watch = asyncio.create_task(self._keep_alive(), name="cronhare consuming")

    async def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait({watch})  # awaiting it alone would hide a cancellation of ours
