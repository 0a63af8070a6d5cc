"""One call of `consume`, kept alive: whenever its hookup is lost, another takes its place."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from cronhare.application.outages import Outage
from cronhare.domain.texts.listing import listed
from cronhare.ports.broker import BrokerUnavailable, Delivery

from ..connection.address import Address
from ..connection.backoff import Backoff
from ..connection.linking import ANSWER_TIMEOUT
from .absences import Absences
from .consumer import QueueRefused, Tag
from .consumer_channel import ConsumerChannel
from .prefetch import PrefetchLimiter

log = logging.getLogger(__name__)

#: Seconds between two proofs of life. A connection can look open and consume nothing for ever.
PROOF_EVERY = 15.0

#: Seconds that a delivery may be held back before it is left to other workers.
HOLD_BACK_LIMIT = 2.0


class Subscription:
    """Consumes some queues until it is paused or closed.

    A queue that the broker refuses, because it is gone or somebody else's, is left out and tried
    again by itself, ever more rarely, while the others are served.

    What was in hand when a connection was lost still counts against the prefetch until it is
    settled: its task may be running.
    """

    def __init__(
        self,
        address: Address,
        queues: Sequence[str],
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        declare: Callable[[], Awaitable[None]],
        doubt: Callable[[], None],
        proof_every: float = PROOF_EVERY,
        answer_timeout: float = ANSWER_TIMEOUT,
    ) -> None:
        """*declare* makes what it can of the queues, or raises BrokerUnavailable.

        *doubt* is told when they may not be, and another `declare` has to look.

        *proof_every* and *answer_timeout* are in seconds.
        """
        self._address = address
        self._queues = deque(dict.fromkeys(queues))
        self._prefetch = prefetch
        self._on_delivery = on_delivery
        self._declare = declare
        self._doubt = doubt
        self._backoff = Backoff()
        self._proof_every = proof_every
        self._answer_timeout = answer_timeout
        self._loop = asyncio.get_running_loop()
        self._absences = Absences(self._loop.time)
        self._allowance = PrefetchLimiter(prefetch, self._hand_over, self._loop.time)
        self._hookup: ConsumerChannel | None = None
        # True once the surplus was given back: nothing is consumed until there is room again.
        self._resting = False
        self._stirred = asyncio.Event()
        self._taking = False
        self._watch: asyncio.Task[None] | None = None
        self._named = listed(tuple(self._queues))
        self._outage = Outage(log, f"Consuming {self._named} again", back="broker.back")

    @property
    def is_idle(self) -> bool:
        """Whether it was paused and has nothing in hand."""
        return not self._taking and not self._allowance.in_hand

    async def start(self) -> None:
        """Begin to consume, and see to it from then on.

        Raises:
            BrokerUnavailable: not consuming.
        """
        self._taking = True
        await self._begin()
        self._watch = asyncio.create_task(self._keep_alive(), name="cronhare consuming")

    async def settle(self, tag: Tag, *, acked: bool, requeue: bool = False) -> None:
        """Ack or nack what was handed over; anything else, or a second time, does nothing."""
        if not self._allowance.settle(tag):
            return
        if self._is_live(tag):
            self._backoff.reset()  # a connection alone is no success: it may be lost over and over
        if acked:
            await tag.consumer.ack(tag.number)
        else:
            await tag.consumer.nack(tag.number, requeue=requeue)
        if self._resting and self._allowance.has_room:
            self._stirred.set()

    async def pause(self) -> None:
        """Take no more deliveries. Those in hand can still be settled."""
        self._taking = False
        await self._end_watch()
        if self._hookup is not None:
            await self._hookup.cancel()
            await self._give_back()

    async def close(self) -> None:
        """Stop. What was not settled goes back to its queue."""
        self._taking = False
        await self._end_watch()
        self._allowance.take_back()
        hookup, self._hookup = self._hookup, None
        if hookup is not None:
            await hookup.close()

    async def _begin(self) -> None:
        """Connect anew without a queue that cost the connection, until those left are consumed.

        Whoever called `start` again would know of none, and meet the same one for ever.

        Raises:
            BrokerUnavailable: not consuming.
        """
        while self._hookup is None:
            absent = len(self._absences.names)
            try:
                await self._hook_up()
            except BrokerUnavailable:
                if not absent < len(self._absences.names) < len(self._queues):
                    raise

    async def _hook_up(self) -> None:
        await self._declare()
        hookup = await ConsumerChannel.open(
            self._address,
            prefetch=self._prefetch,
            on_delivery=self._arrived,
            on_dropped=self._stirred.set,
            answer_timeout=self._answer_timeout,
        )
        self._resting = False
        self._allowance.take_back()  # from a channel that is gone: the broker has them back
        self._hookup = hookup
        try:
            await self._consume(hookup)
        except BaseException:
            self._doubt()  # a queue may be gone
            self._hookup = None
            await hookup.close()
            raise

    async def _consume(self, hookup: ConsumerChannel) -> None:
        """Begin with another queue each time: the first is served first.

        With one place, and tasks that take long, the others would never be served.

        Those left out are tried once others are served: one that costs the connection does so
        before the others had it, each time. Where all are left out, one that serves is enough.

        Raises:
            BrokerUnavailable: none is consumed.
        """
        queues, absent = list(self._queues), self._absences.names
        self._queues.rotate(-1)
        wanted = [queue for queue in queues if queue not in absent]
        refusals: list[QueueRefused | None] = []
        for queue in wanted or queues:
            refusals.append(await self._try(hookup, queue))
            if hookup.consuming and not wanted:
                break
        if not hookup.consuming:
            raise next(filter(None, refusals), BrokerUnavailable(hookup.lost_by))

    async def _try(self, hookup: ConsumerChannel, queue: str) -> QueueRefused | None:
        """Consume a queue; one that cannot be is left out for a while, and next time as well."""
        try:
            await hookup.consume(queue)
        except QueueRefused as refusal:
            self._absences.note(queue, refusal)
            return refusal
        except BrokerUnavailable as error:  # there are queues that cost the connection
            self._absences.note(queue, error)
            raise
        self._absences.tried(queue)
        return None

    async def _arrived(self, delivery: Delivery) -> None:
        tag = delivery.tag
        assert isinstance(tag, Tag)
        if self._taking and self._is_live(tag) and not self._resting:
            self._allowance.offer(delivery)
            if self._allowance.held_since is not None:
                self._stirred.set()
        else:  # it was on its way when we stopped
            await tag.consumer.nack(tag.number, requeue=True)

    def _is_live(self, tag: Tag) -> bool:
        return self._hookup is not None and self._hookup.has(tag.consumer)

    def _hand_over(self, delivery: Delivery) -> None:
        try:
            self._on_delivery(delivery)
        except Exception as error:  # noqa: BLE001 - a fault of one delivery is not ours to judge
            text = "The handler of a delivery raised"
            self._loop.call_exception_handler({"message": text, "exception": error})

    async def _keep_alive(self) -> None:
        while True:
            hookup = self._hookup
            if hookup is None:
                await self._return()
                continue
            try:
                await self._attend(hookup)
            except BrokerUnavailable as error:
                text = f"Lost the consumer of {self._named} at {self._address}"
                self._outage.lasts(logging.WARNING, "broker.lost", text, error)
            except Exception:  # whatever it is, nobody else would bring the consumer back
                log.exception("The consumer met a fault", extra={"action": "broker.fault"})
            if hookup.has_dropped:
                self._doubt()
            self._hookup = None
            self._allowance.take_back()
            await hookup.abandon()

    async def _return(self) -> None:
        """Knock until the broker is there again."""
        while self._hookup is None:
            await asyncio.sleep(self._backoff.next())
            try:
                await self._hook_up()
            except BrokerUnavailable as error:
                text = f"Cannot consume {self._named}, asking again"
                self._outage.lasts(logging.WARNING, "broker.unavailable", text, error)
            except Exception:
                log.exception("The consumer met a fault", extra={"action": "broker.fault"})
        self._outage.is_over()

    async def _attend(self, hookup: ConsumerChannel) -> None:
        """See to the surplus and ask for proofs, until the hookup is lost.

        Raises:
            BrokerUnavailable: it is lost, for this reason.
        """
        proof_at = self._loop.time() + self._proof_every
        lost = asyncio.create_task(hookup.lost.wait())
        try:
            while not hookup.lost.is_set():
                self._stirred.clear()
                await self._see_to_surplus(hookup)
                await self._see_to_absences(hookup)
                if self._loop.time() >= proof_at:
                    await hookup.prove()
                    self._backoff.reset()
                    self._absences.are_over(hookup.consuming)
                    proof_at = self._loop.time() + self._proof_every
                await self._rest(lost, until=proof_at)
        finally:
            lost.cancel()
        raise BrokerUnavailable(hookup.lost_by)

    async def _rest(self, lost: "asyncio.Task[bool]", *, until: float) -> None:
        held_since = self._allowance.held_since
        if held_since is not None:
            until = min(until, held_since + HOLD_BACK_LIMIT)
        if self._absences.next_at is not None and not self._resting:
            until = min(until, self._absences.next_at)
        stirred = asyncio.create_task(self._stirred.wait())
        try:
            seconds = max(until - self._loop.time(), 0)
            both = {lost, stirred}
            await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stirred.cancel()

    async def _see_to_surplus(self, hookup: ConsumerChannel) -> None:
        held_since = self._allowance.held_since
        if held_since is not None and self._loop.time() >= held_since + HOLD_BACK_LIMIT:
            self._resting = True
            await hookup.cancel()
            await self._give_back()
        if self._resting and self._allowance.has_room:
            self._resting = False
            await self._consume(hookup)

    async def _see_to_absences(self, hookup: ConsumerChannel) -> None:
        """Leave out queues that were lost by themselves, try those again whose time has come."""
        for queue, reason in (await hookup.clear_dropped()).items():
            self._absences.note(queue, reason)
            await self._give_back()  # what is held of it has gone back to it
        due = [] if self._resting else self._absences.due()
        if not due:
            return
        self._doubt()
        try:
            await self._declare()
        except BrokerUnavailable as error:
            for queue in due:
                self._absences.note(queue, error)
        else:
            for queue in due:
                await self._try(hookup, queue)

    async def _give_back(self) -> None:
        for delivery in self._allowance.take_back():
            tag = delivery.tag
            assert isinstance(tag, Tag)
            await tag.consumer.nack(tag.number, requeue=True)

    async def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait({watch})  # awaited itself, its end would hide one meant for us
