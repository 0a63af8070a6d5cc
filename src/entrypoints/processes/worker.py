"""A worker process's life: consume, keep leases, drain."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial

import attrs

from cronhare.application.heartbeat import LEAVING, LedgersClock
from cronhare.application.logs import place_of, say
from cronhare.application.scheduling.lapses import PredecessorCleanup
from cronhare.application.worker.delivery import Places
from cronhare.application.worker.leases import LeaseKeeper, OutputKeeper, read_new_output
from cronhare.application.worker.unhandled import WaitingRoom
from cronhare.domain.nodes import CLOSING, WORRYING_SKEW, measured_every
from cronhare.domain.schedules.keys import is_standalone
from cronhare.domain.texts.words import listed
from cronhare.ports.runner import Written

from ..node_identity import is_alive
from ..signals import Shutdown
from ..working import WorkingContainer, announcers_of
from .consuming import Draining, FailedQueueConsumer, ServingApart, WorkerConsumer
from .lifetime import StateLine, StateReport, answers, offset_of
from .loops import Loop, start_all, stop_all
from .reloading import warn_of_untellable

log = logging.getLogger(__name__)


class ClockWatch:
    """Logs once for each change how far this node's clock is off."""

    def __init__(self, clock: LedgersClock, *, lease: timedelta) -> None:
        self._clock = clock
        self._rest = measured_every(lease).total_seconds()
        self._said = timedelta(0)

    def round(self) -> float:
        skew = self._clock.measure()
        if abs(skew - self._said) > WORRYING_SKEW:
            self._said = skew
            off = f"This node's clock is {skew.total_seconds():+.1f} s off the ledger's"
            level = logging.WARNING if abs(skew) > WORRYING_SKEW else logging.INFO
            say(log, level, "clock.skew", f"{off}, which decides")
        return self._rest


#: Seconds that the event loop may take to read what attempts have written.
READING = 5.0


async def run(
    container: WorkingContainer,
    shutdown: Shutdown,
    state: StateReport,
    *,
    concurrency: int,
    read_again: Callable[[], Awaitable[None]],
    on_boot: Sequence[str] = (),
    standalone: Sequence[str] = (),
    finds_standalone: bool = False,
    role: str = "worker",
) -> None:
    """Be a worker until a signal comes, then end in good order.

    *on_boot* are the schedules that run once per boot of this host, *standalone* those that it
    keeps running on its queues; with *finds_standalone* it keeps running all whose tasks it has,
    each with a queue and a place beside the *concurrency*. *read_again* reads a jobs file that has
    changed. *role* is reported.
    """
    settings = container.settings()
    queues: tuple[str, ...] = container.queues()
    if finds_standalone:
        queues = tuple(queue for queue in queues if not is_standalone(queue))
    announcers = announcers_of(container)
    for each in announcers:
        warn_of_untellable(each.subscribers.current, settings)
    places = Places(concurrency)
    consumer, keeper, outputs = _wire(container, places, shutdown, read_again)
    state.add(partial(_state_lines, consumer, keeper, places))
    watched = container.connection()
    monitoring = FailedQueueConsumer(broker=watched, monitor=container.monitor(broker=watched))
    draining = Draining(rest=consumer.rest, resume=consumer.resume, shutdown=shutdown)
    heartbeat = container.heartbeat(
        role=role,
        queues=queues,
        concurrency=places.count,
        running=lambda: consumer.at_hand,
        # One that waits for its broker is at work: it was not drained.
        consuming=lambda: not consumer.rests,
        is_connected=consumer.is_proven,
        left_out=consumer.left_out,
        told=draining.told,
        files=container.file_versions,
    )
    settling = PredecessorCleanup(
        claims=container.claims(),
        reconciler=container.reconciler(),
        ourselves=container.ourselves(),
        lives=is_alive,
        lease=settings.lease,
    )
    loops = [
        Loop("heartbeat", heartbeat.round, ends_within=LEAVING, at_end=heartbeat.leave),
        Loop("lease keeper", keeper.renew),
        Loop("lease watch", keeper.watch),
        Loop("output", outputs.round),
        Loop("clock", ClockWatch(container.ledger_clock(), lease=settings.lease).round),
        Loop("settling", settling.round),
        *(Loop("events", each.round) for each in announcers),
    ]
    if on_boot:
        loops.append(Loop("boot", partial(run_at_boot, container, on_boot)))
    if standalone:
        loops.append(Loop("standalone", container.standalone(names=standalone).round))
    if finds_standalone:
        serving = ServingApart(consumer=consumer, places=places, heartbeat=heartbeat)
        finder = container.standalone_finder(serve=serving.serve, leave=serving.leave)
        loops.append(Loop("standalone", finder.round))
    vitals = container.vitals()
    vitals.clock_offset, vitals.slots = offset_of(heartbeat), lambda: places.count
    vitals.running = lambda: consumer.at_hand
    vitals.proofs.need("ledger", partial(answers, container.claims()))
    vitals.proofs.need("consumer", consumer.is_proven)
    start_all(loops, vitals)
    telling = [
        asyncio.create_task(
            container.outbox_relay(subscribers=each.subscribers).run(shutdown.requested),
            name="events",
        )
        for each in announcers
    ]

    async def consume() -> None:
        weights = container.weights()
        if await consumer.begin(queues, weights, concurrency=concurrency):
            say(log, logging.INFO, "begun", f"Consuming {listed(queues)}")
        watches = [consumer.bring_back()]
        if settings.failed_monitor:
            watches.append(monitoring.begin(shutdown))
        await asyncio.gather(*watches)

    # Beside it: who waits for its broker can be drained, and tells what there is to tell.
    await asyncio.gather(consume(), draining.follow())
    await shutdown.requested.wait()
    # Read again: a reload may have changed it.
    await consumer.drain(grace=container.settings().shutdown_grace, force=shutdown.force)
    await asyncio.gather(consumer.interrupt(), monitoring.drain())
    shutdown.forced_exit.waits_for("servers, to take leave of them")
    told = asyncio.wait(telling, timeout=CLOSING)
    await asyncio.gather(consumer.close(), monitoring.close(), told, stop_all(loops))
    shutdown.forced_exit.leaving()


def run_at_boot(container: WorkingContainer, names: Sequence[str]) -> None:
    """Ask for the run of each schedule with `on_boot` that this boot of the host concerns.

    Raises:
        LedgerUnavailable: to be repeated; what was begun is not run twice.
    """
    from cronhare.application.administration.changing.runs import (  # noqa: PLC0415 - 4 MB, which most do without
        CannotRun,
        NotOfThisBoot,
    )
    from cronhare.application.administration.reading.lookup import NotFound  # noqa: PLC0415 - as above

    try:
        boot = container.boot()
    except OSError as error:
        text = f"Nothing runs at boot: the kernel does not tell when that was: {error}"
        say(log, logging.WARNING, "boot.unknown", text)
        return
    administrator, now = container.administrator(), container.ledger_time().now()
    for name in names:
        try:
            execution = administrator.run_at_boot(name, boot, now=now)
        except NotOfThisBoot as error:
            say(log, logging.INFO, "boot.passed", str(error))
        except (NotFound, CannotRun) as error:
            say(log, logging.WARNING, "boot.refused", f"{name} cannot run at boot: {error}")
        else:
            text = f"{name} has its run of this boot of the host"
            say(log, logging.INFO, "boot", text, **place_of(execution))


def _state_lines(
    consumer: WorkerConsumer, keeper: LeaseKeeper, places: Places
) -> Iterator[StateLine]:
    text = f"Worker: {consumer.at_hand} of {places.count} at hand; the counts are since its start"
    yield text, attrs.asdict(consumer.counters)
    for each in keeper.running:
        place = {"execution": each.execution.id, "attempt": each.execution.attempt}
        does = "Has ended, its result waits for the ledger" if each.over else "Runs"
        yield f"{does}, and its lease was renewed {keeper.age(each):.1f} s ago", place


def _wire(
    container: WorkingContainer,
    places: Places,
    shutdown: Shutdown,
    read_again: Callable[[], Awaitable[None]],
) -> tuple[WorkerConsumer, LeaseKeeper, OutputKeeper]:
    runner, connection = container.runner(), container.connection()
    loop = asyncio.get_running_loop()
    keeper = container.lease_keeper(
        stop=lambda execution_id, reason: loop.call_soon_threadsafe(
            runner.stop, execution_id, reason
        )
    )
    worker = container.worker(
        broker=connection, keeper=keeper, places=places, read_again=read_again
    )

    async def read(wanted: Mapping[int, int]) -> Sequence[Written]:
        return read_new_output(runner, wanted)

    outputs = container.output_keeper(
        keeper=keeper,
        read=lambda ids: asyncio.run_coroutine_threadsafe(read(ids), loop).result(READING),
    )
    consumer = WorkerConsumer(
        broker=connection,
        worker=worker,
        room=WaitingRoom(connection, in_memory=container.settings().in_memory),
        runner=runner,
        keeper=keeper,
        shutdown=shutdown,
    )
    return consumer, keeper, outputs
