"""`cronhare up`: scheduler and worker in one process, on one machine."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Collection, Iterable
from functools import partial

import attrs

from cronhare.adapters.jobs.reader import JobsFile
from cronhare.adapters.sql import upgrade
from cronhare.application.difference import Change
from cronhare.application.leases import LeaseKeeper
from cronhare.application.logs import say
from cronhare.application.monitor import FailedMonitor
from cronhare.domain.topology import MAIN_QUEUE

from .container import Container
from .loops import Loop
from .scheduling import Scheduling
from .settings import Settings
from .working import Monitoring, Working

log = logging.getLogger(__name__)

CONCURRENCY = 8
RENEW_EVERY = 2.0


@attrs.frozen
class Stopping:
    """The two signals: the first asks, the second insists."""

    asked: asyncio.Event = attrs.field(factory=asyncio.Event)
    hurry: asyncio.Event = attrs.field(factory=asyncio.Event)

    def listen(self) -> None:
        """Take SIGINT and SIGTERM for this event loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.asked.is_set():
            say(log, logging.WARNING, "shutdown.hurry", f"{number.name} again, ending what runs")
            self.hurry.set()
            return
        text = f"{number.name} received, shutting down gracefully..."
        say(log, logging.WARNING, "shutdown", text)
        self.asked.set()


def queues_of(jobs: JobsFile | None) -> tuple[str, ...]:
    """Name the task queues: the main one, and those that the schedules name."""
    named = (draft.queue for draft in jobs.drafts) if jobs else ()
    return tuple(dict.fromkeys((MAIN_QUEUE, *named)))


def prepare(container: Container, jobs: JobsFile | None) -> None:
    """Bring ledger and schedules up to date, and take up what a former process left behind."""
    for revision in upgrade(container.engine()):
        say(log, logging.INFO, "db.upgrade", f"The ledger was brought to revision {revision}")
    claims, administrator = container.claims(), container.administrator()
    now = claims.now()
    if jobs is not None:
        changes = administrator.apply(jobs.drafts, source=jobs.source, now=now)
        changed = [change.name for change in changes if change.change is not Change.KEEP]
        text = f"{jobs.path}: {len(jobs.tasks)} tasks, {len(jobs.drafts)} schedules"
        say(log, logging.INFO, "jobs", f"{text}, {len(changed)} of them new or changed")
        for name in jobs.on_start:
            administrator.run_now(name, params=None, now=now)
    gone = departed(claims.owners())
    recovered = container.reconciler().recover(now, gone=gone)
    if recovered.republished or recovered.lost:
        text = f"Taking up {recovered.republished} executions, {recovered.lost} were cut off"
        say(log, logging.INFO, "recover", text)


def departed(owners: Iterable[str]) -> Collection[str]:
    """Tell which nodes of this host are no more: their PID is nobody's, or ours."""
    host = f"{socket.gethostname()}-"
    gone = []
    for owner in owners:
        pid = owner.removeprefix(host)
        if owner.startswith(host) and pid.isdigit() and not _lives(int(pid)):
            gone.append(owner)
    return gone


def _lives(pid: int) -> bool:
    if pid == os.getpid():
        return False  # we have just begun: whoever ran under our name is gone
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


async def run(
    container: Container, settings: Settings, queues: Collection[str], *, concurrency: int
) -> None:
    """Run until a signal comes, then end in good order."""
    stopping = Stopping()
    stopping.listen()
    broker = container.broker()
    runner = container.runner()
    loop = asyncio.get_running_loop()
    keeper = container.lease_keeper(
        stop=lambda execution_id, reason: loop.call_soon_threadsafe(
            runner.stop, execution_id, reason
        )
    )
    connection = broker.connect()
    worker = container.worker(broker=connection, keeper=keeper)
    working = Working(broker=connection, worker=worker, runner=runner)
    watched = broker.connect()
    monitoring = Monitoring(broker=watched, monitor=FailedMonitor(watched))
    scheduling = Scheduling(
        claims=container.claims(),
        dispatcher=container.dispatcher(),
        reconciler=container.reconciler(),
    )
    loops = [
        Loop("scheduler", scheduling.round),
        Loop("lease keeper", partial(_renew, keeper)),
    ]
    await working.begin(list(queues), concurrency=concurrency)
    if settings.failed_monitor:
        await monitoring.begin()
    for each in loops:
        each.start()
    await stopping.asked.wait()
    await asyncio.to_thread(loops[0].stop)
    await working.drain(grace=settings.shutdown_grace, hurry=stopping.hurry)
    await asyncio.to_thread(loops[1].stop)
    await monitoring.end()


def _renew(keeper: LeaseKeeper) -> float:
    keeper.renew()
    return RENEW_EVERY
