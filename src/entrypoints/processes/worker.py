"""A worker process's life: consume, keep leases, drain."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial

import attrs

from cronhare.application.logs import say
from cronhare.application.redelivery.waiting_room import PLACES, WaitingRoom
from cronhare.application.scheduling.predecessors import PredecessorCleanup
from cronhare.application.worker.delivery_handler import Counters, DeliveryHandler
from cronhare.application.worker.failed_monitor import FailedMonitor
from cronhare.application.worker.leases import LeaseKeeper
from cronhare.application.worker.live_output import OutputKeeper, Reading, read_new_output
from cronhare.domain.nodes import renewed_every
from cronhare.domain.texts.listing import listed
from cronhare.domain.topology import FAILED_QUEUE, WAITING_QUEUE
from cronhare.ports.broker import AsyncBrokerPort, Delivery
from cronhare.ports.runner import TaskRunnerPort, Written

from ..container import Container
from ..node_identity import lives
from ..signals.shutdown import Shutdown
from .boot_runs import run_at_boot
from .bounded_wait import within
from .clock_watch import Measuring
from .loops import Loop
from .readiness import answered
from .state_report import Line, State

log = logging.getLogger(__name__)

#: Seconds that the broker may take to send nothing more, that what was interrupted may take to end
#: (5 from TERM to KILL) and to be written down, and that each farewell may take. Together they are
#: less than `last_resort.ENDING`.
PAUSING, INTERRUPTING, FAREWELL = 1.5, 8.5, 3.0

#: Seconds that the event loop may take to tell what attempts have written.
READING = 5.0


class UnderWay:
    """The deliveries that are being handled, each in a task of its own."""

    def __init__(self, handle: Callable[[Delivery], Coroutine[None, None, None]]) -> None:
        """*handle* brings a delivery to its end."""
        self._handle = handle
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Count them."""
        return len(self._tasks)

    def accept(self, delivery: Delivery) -> None:
        """Begin to handle a delivery."""
        task = asyncio.create_task(self._handle(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def settled(self) -> None:
        """Wait until all that was accepted so far has come to its end."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("A delivery met a fault of ours", exc_info=fault, extra={"action": "fault"})


class Working:
    """Hands deliveries to the worker, and ends in good order."""

    def __init__(
        self,
        *,
        broker: AsyncBrokerPort,
        worker: DeliveryHandler,
        room: WaitingRoom,
        runner: TaskRunnerPort,
        keeper: LeaseKeeper,
    ) -> None:
        """All of it runs in one event loop."""
        self._broker = broker
        self._worker = worker
        self._runner = runner
        self._keeper = keeper
        self._under_way = UnderWay(worker.handle)
        self._room = room
        self._resting = UnderWay(room.handle)

    @property
    def counters(self) -> Counters:
        """What was done so far."""
        return self._worker.counters

    @property
    def at_hand(self) -> int:
        """How many deliveries are being handled."""
        return len(self._under_way)

    @property
    def pending_ends(self) -> int:
        """How many results wait for the ledger in none of the places."""
        return self._worker.pending_ends

    async def begin(self, queues: Sequence[str], *, concurrency: int, stopping: Shutdown) -> bool:
        """Start to consume, as many deliveries at a time as may run at a time.

        While the broker is away it is asked again, until somebody wants us to stop: then False.
        """
        accept = self._under_way.accept
        ask = partial(self._broker.consume, queues, prefetch=concurrency, on_delivery=accept)
        return await answered("broker", ask, stopping=stopping)

    async def bring_back(self, stopping: Shutdown) -> None:
        """Start to bring back what was deferred, beside the tasks: it takes none of their places.

        The queue may not be there, where this user may declare none: it is asked for again.
        """
        accept = self._resting.accept
        ask = partial(self._broker.consume, [WAITING_QUEUE], prefetch=PLACES, on_delivery=accept)
        await answered("broker", ask, stopping=stopping)

    async def drain(self, *, grace: timedelta, force: asyncio.Event) -> None:
        """Give back what has not begun, let the rest finish within *grace*, then end it.

        *force* skips the wait. What cannot be written down then is found by its lease.
        """
        self._worker.drain()
        await within(PAUSING, "the broker, to send nothing more", self._broker.pause())
        self._room.drain()
        if (left := self.at_hand + self.pending_ends) and not force.is_set():
            text = (
                f"Waiting at most {grace.total_seconds():.0f} s for what runs ({left}); "
                "a second signal ends it at once"
            )
            say(log, logging.INFO, "shutdown.wait", text)
            await self._settled(grace, force)
        self._worker.interrupt()
        settled = self._all_settled()
        if not await within(INTERRUPTING, "the results of what runs", settled):
            tell_of_unsettled(self._keeper)

    async def close(self) -> None:
        """End what still runs, and take leave of the broker."""
        await asyncio.gather(
            within(FAREWELL, "the end of all tasks", self._runner.close()),
            within(FAREWELL, "the broker's farewell", self._broker.close()),
        )

    async def _all_settled(self) -> None:
        """Wait for what is under way, and then for the results that it left waiting."""
        await self._under_way.settled()
        await self._worker.settled()

    async def _settled(self, grace: timedelta, force: asyncio.Event) -> None:
        waits = [
            asyncio.create_task(force.wait(), name="force"),
            asyncio.create_task(self._all_settled(), name="settled"),
        ]
        await asyncio.wait(
            waits, timeout=grace.total_seconds(), return_when=asyncio.FIRST_COMPLETED
        )
        for each in waits:
            each.cancel()


def tell_of_unsettled(keeper: LeaseKeeper) -> None:
    """Say what ends without a result, and that nobody has to see to it."""
    if ids := [str(id_) for id_, _, _ in keeper.told()]:
        text = (
            f"Without a recorded result: execution {listed(ids)}. Once the lease has ended, a "
            "scheduler takes what is not recorded for lost, and has it repeated"
        )
        say(log, logging.WARNING, "shutdown.given-up", text)


class Monitoring:
    """Watches the failed queue, one message at a time."""

    def __init__(self, *, broker: AsyncBrokerPort, monitor: FailedMonitor) -> None:
        """*broker* is a connection of its own, so that a busy worker does not delay the news."""
        self._broker = broker
        self._monitor = monitor
        self._under_way = UnderWay(monitor.handle)

    async def begin(self, stopping: Shutdown) -> None:
        """Start to watch, as soon as the broker is there."""
        accept = self._under_way.accept
        ask = partial(self._broker.consume, [FAILED_QUEUE], prefetch=1, on_delivery=accept)
        await answered("broker", ask, stopping=stopping)

    async def end(self) -> None:
        """Finish what was begun, give back what the ledger has no answer to, and stop."""
        self._monitor.drain()
        await within(FAREWELL, "the failed queue", self._finish())

    async def _finish(self) -> None:
        await self._broker.pause()
        await self._under_way.settled()
        await self._broker.close()


async def run(
    container: Container,
    stopping: Shutdown,
    state: State,
    *,
    concurrency: int,
    on_boot: Sequence[str] = (),
    role: str = "worker",
) -> None:
    """Be a worker until a signal comes, then end in good order.

    *on_boot* are the schedules that run once per boot of this host; *role* is reported.
    """
    settings = container.settings()
    working, keeper, outputs = _wire(container, concurrency)
    state.also(partial(_told, working, keeper, concurrency))
    watched = container.connection()
    monitoring = Monitoring(broker=watched, monitor=container.monitor(broker=watched))
    every = renewed_every(settings.lease).total_seconds()
    heartbeat = container.heartbeat(
        role=role,
        queues=container.queues(),
        concurrency=concurrency,
        running=lambda: working.at_hand,
    )
    loops = [
        Loop("heartbeat", heartbeat.round),
        Loop("lease keeper", partial(_renew, keeper, every)),
        Loop("lease watch", partial(_watch, keeper, every)),
        Loop("output", outputs.round),
        Loop("clock", Measuring(container.ledger_clock(), lease=settings.lease).round),
        Loop("settling", _settling(container).round),
        Loop("boot", partial(run_at_boot, container, on_boot)),
    ]
    for loop in loops:
        loop.start()
    queues = container.queues()
    if await working.begin(queues, concurrency=concurrency, stopping=stopping):
        say(log, logging.INFO, "begun", f"Consuming {listed(queues)}")
    watches = [working.bring_back(stopping)]
    if settings.failed_monitor:
        watches.append(monitoring.begin(stopping))
    await asyncio.gather(*watches)
    await stopping.asked.wait()
    # Asked anew: a reload may have changed it.
    await working.drain(grace=container.settings().shutdown_grace, force=stopping.force)
    stopping.resort.waits_for("servers, to take leave of them")
    stops = [loop.stop(seconds=FAREWELL) for loop in loops]
    await asyncio.gather(working.close(), monitoring.end(), *stops)
    stopping.resort.leaving()


def _told(working: Working, keeper: LeaseKeeper, concurrency: int) -> Iterator[Line]:
    """Tell what runs here."""
    counted = attrs.asdict(working.counters)
    yield (
        f"Worker: {working.at_hand} of {concurrency} at hand; the counts are since its start",
        counted,
    )
    ended = keeper.ended
    for id_, attempt, age in keeper.told():
        place = {"execution": id_, "attempt": attempt}
        does = "Has ended, its result waits for the ledger" if id_ in ended else "Runs"
        yield f"{does}, and its lease was renewed {age:.1f} s ago", place


def _wire(container: Container, concurrency: int) -> tuple[Working, LeaseKeeper, OutputKeeper]:
    runner, connection = container.runner(), container.connection()
    loop = asyncio.get_running_loop()
    keeper = container.lease_keeper(
        stop=lambda execution_id, reason: loop.call_soon_threadsafe(
            runner.stop, execution_id, reason
        )
    )
    worker = container.worker(broker=connection, keeper=keeper, places=concurrency)
    outputs = container.output_keeper(keeper=keeper, read=_reading(runner, loop))
    room = WaitingRoom(connection)
    working = Working(broker=connection, worker=worker, room=room, runner=runner, keeper=keeper)
    return working, keeper, outputs


def _reading(runner: TaskRunnerPort, loop: asyncio.AbstractEventLoop) -> Reading:
    """Let another thread read what attempts have written, in the loop to which they belong."""

    async def some(asked: Mapping[int, int]) -> Sequence[Written]:
        return read_new_output(runner, asked)

    return lambda asked: asyncio.run_coroutine_threadsafe(some(asked), loop).result(READING)


def _renew(keeper: LeaseKeeper, every: float) -> float:
    keeper.renew()
    return every


def _watch(keeper: LeaseKeeper, every: float) -> float:
    keeper.watch()
    return every


def _settling(container: Container) -> PredecessorCleanup:
    return PredecessorCleanup(
        claims=container.claims(),
        reconciler=container.reconciler(),
        ourselves=container.ourselves(),
        lives=lives,
        lease=container.settings().lease,
    )
