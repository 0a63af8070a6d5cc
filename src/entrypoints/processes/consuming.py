"""How a worker consumes: what its queues bring is handled, and given back or settled at the end."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from functools import partial

import attrs

from cronhare.application.heartbeat import Heartbeat
from cronhare.application.logs import say
from cronhare.application.worker.delivery import DeliveryHandler, Places
from cronhare.application.worker.foreign import FailedMonitor
from cronhare.application.worker.leases import LeaseKeeper
from cronhare.application.worker.record import Counters
from cronhare.application.worker.unhandled import PLACES, WaitingRoom
from cronhare.domain.nodes import CLOSING, INTERRUPTING, PAUSING
from cronhare.domain.texts.words import listed
from cronhare.domain.topology import FAILED_QUEUE, WAITING_QUEUE
from cronhare.ports.broker import AsyncBrokerPort, Delivery
from cronhare.ports.runner import TaskRunnerPort

from ..signals import Shutdown
from .loops import answered, wait_at_most, wait_unless

log = logging.getLogger(__name__)


@attrs.define(eq=False)
class DeliveryTasks:
    """The deliveries that are being handled, each in a task; *handle* brings one to its end."""

    _handle: Callable[[Delivery], Coroutine[None, None, None]]
    _tasks: set[asyncio.Task[None]] = attrs.field(init=False, factory=set[asyncio.Task[None]])

    def __len__(self) -> int:
        return len(self._tasks)

    def accept(self, delivery: Delivery) -> None:
        task = asyncio.create_task(self._handle(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def settled(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        _log_fault("A delivery", task)


def _log_fault(what: str, done: "Future[None] | asyncio.Task[None]") -> None:
    """Nobody waits for it."""
    if not done.cancelled() and (fault := done.exception()) is not None:
        log.error("%s met a fault of ours", what, exc_info=fault, extra={"action": "fault"})


@attrs.define(kw_only=True, eq=False)
class WorkerConsumer:
    """Hands deliveries to the worker, and drains it at the end.

    All of it runs in one event loop. The broker is asked for until a *shutdown*.
    """

    _broker: AsyncBrokerPort
    _worker: DeliveryHandler
    _room: WaitingRoom
    _runner: TaskRunnerPort
    _keeper: LeaseKeeper
    _shutdown: Shutdown
    _under_way: DeliveryTasks = attrs.field(init=False)
    _resting: DeliveryTasks = attrs.field(init=False)
    _may_consume: asyncio.Event = attrs.field(init=False, factory=asyncio.Event)
    rests: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._under_way = DeliveryTasks(self._worker.handle)
        self._resting = DeliveryTasks(self._room.handle)
        self._may_consume.set()

    @property
    def counters(self) -> Counters:
        return self._worker.counters

    @property
    def at_hand(self) -> int:
        return len(self._under_way)

    def is_proven(self) -> bool:
        """Whether what its queues bring gets here, as was proven of late; any thread may ask.

        One that rests since somebody drained it is as it is meant to be.
        """
        return self.rests or self._broker.is_consuming()

    def left_out(self) -> Collection[str]:
        return self._broker.left_out()

    async def begin(
        self, queues: Sequence[str], weights: Mapping[str, int], *, concurrency: int
    ) -> bool:
        """Start to consume, as many deliveries at a time as may run at a time.

        While the broker is away it is asked again, until a shutdown is requested: then False. While
        it rests it is not asked.
        """
        accept, consume = self._under_way.accept, self._broker.consume
        ask = partial(consume, queues, prefetch=concurrency, on_delivery=accept, weights=weights)
        return await self._begin(ask)

    async def begin_apart(self, queue: str) -> None:
        accept = self._under_way.accept
        await self._begin(partial(self._broker.consume_apart, queue, on_delivery=accept))

    async def bring_back(self) -> None:
        """Start to bring back what was deferred, beside the tasks: it takes none of their places.

        The queue may not be there, where this user may declare none: it is asked for again.
        """
        accept, consume = self._resting.accept, self._broker.consume
        ask = partial(consume, [WAITING_QUEUE], prefetch=PLACES, on_delivery=accept)
        await self._begin(ask)

    async def _begin(self, consume: Callable[[], Awaitable[None]]) -> bool:
        async def ask() -> None:
            await self._may_consume.wait()
            await consume()
            if not self._may_consume.is_set():  # asked for while the broker was answering
                await self._broker.pause()

        return await answered("broker", ask, shutdown=self._shutdown)

    async def leave(self, queue: str) -> None:
        await self._broker.leave(queue)

    async def rest(self) -> None:
        self._may_consume.clear()
        await self._broker.pause()
        self.rests = True

    async def resume(self) -> None:
        """Take deliveries again; what is still at hand keeps its places."""
        await self._broker.resume()
        self._may_consume.set()
        self.rests = False

    async def drain(self, *, grace: timedelta, force: asyncio.Event) -> None:
        """Give back what has not begun, and let the rest finish within *grace*.

        *force* skips the wait.
        """
        self._worker.drain()
        await wait_at_most(PAUSING, "the broker, to send nothing more", self._broker.pause())
        self._room.drain()
        if (left := self.at_hand + self._worker.pending_ends) and not force.is_set():
            text = (
                f"Waiting at most {grace.total_seconds():.0f} s for what runs ({left}); "
                "a second signal ends it at once"
            )
            say(log, logging.INFO, "shutdown.wait", text)
            await wait_unless(force, self._all_settled(), seconds=grace.total_seconds())

    async def interrupt(self) -> None:
        """End what still runs. What cannot be recorded is found by its lease."""
        self._worker.interrupt()
        settled = self._all_settled()
        if not await wait_at_most(INTERRUPTING, "the results of what runs", settled) and (
            ids := [str(each.execution.id) for each in self._keeper.running]
        ):
            text = (
                f"Without a recorded result: execution {listed(ids)}. Once the lease has ended, a "
                "scheduler takes what is not recorded for lost, and has it repeated"
            )
            say(log, logging.WARNING, "shutdown.given-up", text)

    async def close(self) -> None:
        await asyncio.gather(
            wait_at_most(CLOSING, "the end of all tasks", self._runner.close()),
            wait_at_most(CLOSING, "the broker's farewell", self._broker.close()),
        )

    async def _all_settled(self) -> None:
        await self._under_way.settled()
        await self._worker.settled()


@attrs.define(kw_only=True, eq=False)
class FailedQueueConsumer:
    """Hands messages of the failed queue to the monitor, one at a time.

    *broker* is a connection of its own, which a busy worker does not delay.
    """

    _broker: AsyncBrokerPort
    _monitor: FailedMonitor
    _under_way: DeliveryTasks = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._under_way = DeliveryTasks(self._monitor.handle)

    async def begin(self, shutdown: Shutdown) -> None:
        accept = self._under_way.accept
        ask = partial(self._broker.consume, [FAILED_QUEUE], prefetch=1, on_delivery=accept)
        await answered("broker", ask, shutdown=shutdown)

    async def drain(self) -> None:
        self._monitor.drain()
        await wait_at_most(PAUSING, "the broker, to send no more failures", self._broker.pause())
        await wait_at_most(CLOSING, "the failed queue", self._under_way.settled())

    async def close(self) -> None:
        await wait_at_most(CLOSING, "the farewell of the failed queue", self._broker.close())


_log_fault_apart = partial(_log_fault, "Serving a queue apart")


@attrs.define(kw_only=True, eq=False)
class ServingApart:
    """Lets one other thread have queues served, and left, in the event loop that this is made in.

    What is served is reported, with its place.
    """

    _consumer: WorkerConsumer
    _places: Places
    _heartbeat: Heartbeat
    _loop: asyncio.AbstractEventLoop = attrs.field(init=False, factory=asyncio.get_running_loop)
    _beginning: dict[str, asyncio.Task[None]] = attrs.field(init=False, factory=dict)
    #: One that is left may be asked for again before it has been: each thing in its turn.
    _turns: defaultdict[str, asyncio.Lock] = attrs.field(
        init=False, factory=lambda: defaultdict(asyncio.Lock)
    )

    def serve(self, queue: str) -> None:
        self._places.apart |= {queue}
        self._report((*self._heartbeat.queues, queue))
        self._in_loop(self._begin(queue))

    def leave(self, queue: str) -> None:
        self._places.apart -= {queue}
        self._report(tuple(each for each in self._heartbeat.queues if each != queue))
        self._in_loop(self._end(queue))

    def _in_loop(self, doing: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(doing, self._loop).add_done_callback(_log_fault_apart)

    def _report(self, queues: tuple[str, ...]) -> None:
        self._heartbeat.queues, self._heartbeat.concurrency = queues, self._places.count

    async def _begin(self, queue: str) -> None:
        async with self._turns[queue]:
            begun = self._consumer.begin_apart(queue)
            self._beginning[queue] = asyncio.create_task(begun, name=f"serving {queue}")
            self._beginning[queue].add_done_callback(_log_fault_apart)

    async def _end(self, queue: str) -> None:
        async with self._turns[queue]:
            beginning = self._beginning.pop(queue)
            beginning.cancel()  # it may still wait, as the worker rests
            await asyncio.wait({beginning})
            await self._consumer.leave(queue)


@attrs.define(kw_only=True, eq=False)
class Draining:
    """Has the worker consume as the ledger wants it, in the event loop that this is made in."""

    _rest: Callable[[], Awaitable[object]]
    _resume: Callable[[], Awaitable[object]]
    _shutdown: Shutdown
    _loop: asyncio.AbstractEventLoop = attrs.field(init=False, factory=asyncio.get_running_loop)
    _wanted: bool = attrs.field(init=False, default=False)
    _changed: asyncio.Event = attrs.field(init=False, factory=asyncio.Event)

    def told(self, drain: bool) -> None:  # noqa: FBT001 - it is the heartbeat's answer
        with suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._note, drain)

    async def follow(self) -> None:
        """Do as is wanted, until a shutdown: that waits for no broker that hangs meanwhile."""
        requested, drained = self._shutdown.requested, False
        while await wait_unless(requested, self._changed.wait()):
            self._changed.clear()
            if self._wanted != drained:
                drained = self._wanted
                if drained:
                    text = "no more work is taken, what runs goes on"
                    hint = "until `cronhare nodes undrain`"
                    say(log, logging.INFO, "node.drain", f"Draining: {text}, {hint}")
                else:
                    text = "Drained no longer: work is taken again"
                    say(log, logging.INFO, "node.undrain", text)
                await wait_unless(requested, self._rest() if drained else self._resume())

    def _note(self, drain: bool) -> None:  # noqa: FBT001
        self._wanted = drain
        self._changed.set()
