"""`cronhare up`: scheduler and worker in one process, on one machine."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Protocol

from cronhare.adapters.addresses import LedgerFile
from cronhare.adapters.jobs.reader import FileFault, JobsFile, JobsFileInvalid
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.adapters.system.fifo_bell import FifoListener, listen
from cronhare.application.administration.changing.runs import CannotRun
from cronhare.application.administration.jobs_file.applying import JobsFileApplier
from cronhare.application.administration.jobs_file.difference import Change, ChangedKind
from cronhare.application.administration.jobs_file.notes import notes_on_keys, notes_on_queues
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.logs import say
from cronhare.application.reports.clashes import say_disabled
from cronhare.domain.nodes import departed
from cronhare.domain.reading import Fault
from cronhare.domain.texts.words import counted
from cronhare.domain.topology import MAIN_QUEUE

from ..container import Container
from ..node_identity import is_alive, this_actor
from ..signals import Shutdown
from ..working import WorkingContainer
from . import worker
from .lifetime import StateReport
from .loops import start_all, stop_all
from .scheduler import scheduler_loops, state_lines

log = logging.getLogger(__name__)


class Beside(Protocol):
    """What runs in this process beside scheduler and worker, in a thread of its own."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


def queues_of(files: Sequence[JobsFile]) -> tuple[str, ...]:
    named = [queue for jobs in files for queue in jobs.queues]
    named += [draft.runs_on for jobs in files for draft in jobs.drafts]
    return tuple(dict.fromkeys((MAIN_QUEUE, *named)))


def prepare(container: WorkingContainer, files: Sequence[JobsFile]) -> None:
    if revisions := upgrade(container.engine()):
        for revision in revisions:
            say(log, logging.DEBUG, "db.upgrade", f"Revision {revision} is done")
        say(log, logging.INFO, "db.upgrade", f"The ledger was brought to revision {revisions[-1]}")
    claims, administrator = container.claims(), container.administrator()
    now = claims.now()
    for jobs in files:
        apply(container, jobs, beside=[each.source for each in files])
        for name in jobs.on_start:
            try:
                administrator.run_at_start(name, now=now)
            except (NotFound, CannotRun) as error:
                text = f"{name} cannot run at the start: {error}"
                say(log, logging.WARNING, "start.refused", text)
    gone = departed(claims.owners(), ourselves=container.ourselves(), lives=is_alive).gone
    recovered = container.reconciler().recover(now, gone=gone)
    if recovered.republished or recovered.lost:
        text = f"Taking up {counted(recovered.republished, 'execution')}, {recovered.lost} cut off"
        say(log, logging.INFO, "recover", text)


def take(container: Container, files: Sequence[JobsFile]) -> None:
    """Apply jobs file and app that were read again.

    Raises:
        JobsFileInvalid: some are on a new queue, which is not served before a restart.
    """
    served = container.queues()
    # What stays alive is found, and its queue served, while we run.
    text = "{} is new, and is served from a start on: restart `cronhare up`"
    for jobs in files:
        found = [draft for draft in jobs.drafts if not draft.stay_alive]
        named = [("", "queues", queue) for queue in jobs.queues]
        named += [(f"schedules.{draft.name}", "queue", draft.runs_on) for draft in found]
        if faults := [
            FileFault(place, Fault(field, text.format(queue)))
            for place, field, queue in named
            if queue not in served
        ]:
            raise JobsFileInvalid(jobs.path, tuple(faults))
    for jobs in files:
        apply(container, jobs, beside=[each.source for each in files])


def apply(container: Container, jobs: JobsFile, *, beside: Sequence[str] = ()) -> None:
    """Apply a jobs file, whatever other files have, and log what changed.

    What is *beside* it in this process has its own tasks here.
    """
    applier = container.applier()
    _warn_of_other_files(applier, jobs, beside)
    for note in notes_on_keys(jobs):
        say(log, logging.WARNING, "jobs.key", f"{jobs.path}: {note}")
    changes = applier.take_over(jobs, actor=this_actor())
    changed = [change for change in changes if change.kind is ChangedKind.SCHEDULE]
    counts = Counter(change.change for change in changed)
    tasks, schedules = counted(len(jobs.tasks), "task"), counted(len(jobs.drafts), "schedule")
    news = f"{counts[Change.ADD]} new, {counts[Change.CHANGE]} changed"
    gone = f"{counted(counts[Change.DISABLE], 'other')} disabled"
    say(log, logging.INFO, "jobs", f"{jobs.path}: {tasks}, {schedules}: {news}, {gone}")
    if off := [change.name for change in changed if change.change is Change.DISABLE]:
        text = f"{jobs.path}: {say_disabled(off, jobs.source)}"
        say(log, logging.WARNING, "jobs.disabled", text)


def _warn_of_other_files(applier: JobsFileApplier, jobs: JobsFile, beside: Sequence[str]) -> None:
    """Warn of what other files on this ledger share with ours: none runs another's commands."""
    if (error := applier.why_not(jobs)) is not None:
        for clash in error.clashes:
            taken = "; it is this file's from now on" if clash.is_of_a_name else ""
            say(log, logging.WARNING, "jobs.clash", f"{jobs.path}: {clash}{taken}")
        for fault in error.calendars:
            text = f"{jobs.path}: {fault}: until it is there, this schedule does not run"
            say(log, logging.WARNING, "jobs.calendar", text)
    for note in notes_on_queues(applier.shared_queues(jobs, beside=beside)):
        say(log, logging.WARNING, "jobs.shared-queue", str(note))


async def run(
    container: WorkingContainer,
    shutdown: Shutdown,
    state: StateReport,
    *,
    concurrency: int,
    read_again: Callable[[], Awaitable[None]],
    on_boot: Sequence[str] = (),
    beside: Beside | None = None,
    watch: Callable[[], Coroutine[None, None, None]] | None = None,
) -> None:
    """Be scheduler and worker until a signal comes; the scheduler ends first.

    What runs *beside* them begins with them, and ends while they do. *watch* looks for code that
    changes.
    """
    state.add(partial(state_lines, container))
    text = "Running; Ctrl-C ends it. From another terminal: cronhare executions list"
    if beside is not None:
        text += f"; in a browser, in a moment: http://{container.settings().listen_address}"
    say(log, logging.INFO, "running", text)
    bell = _listen(container)
    loops = scheduler_loops(container, rings=bell)
    working = asyncio.create_task(
        worker.run(
            container,
            shutdown,
            state,
            concurrency=concurrency,
            read_again=read_again,
            on_boot=on_boot,
            finds_standalone=True,
            role="up",
        )
    )
    start_all(loops, container.vitals())
    if beside is not None:
        beside.start()
    watching = None if watch is None else asyncio.create_task(watch())
    await shutdown.requested.wait()
    if watching is not None:
        watching.cancel()
    leaving = None if beside is None else asyncio.create_task(beside.stop())
    await stop_all(loops)
    if bell is not None:
        bell.remove()
    await working
    if leaving is not None:
        await leaving


def _listen(container: WorkingContainer) -> FifoListener | None:
    """Listen to what other processes claim by hand, where they cannot tell it to our broker."""
    ledger = container.settings().ledger
    is_alone = container.settings().in_memory
    return listen(ledger.path) if is_alone and isinstance(ledger, LedgerFile) else None
