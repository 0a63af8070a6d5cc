"""`cronhare up`: scheduler and worker in one process, on one machine."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial

from cronhare.adapters.jobs.reader import JobsFile
from cronhare.adapters.sql import upgrade
from cronhare.application.administer import MOST_NAMED, Administrator
from cronhare.application.difference import Change
from cronhare.application.logs import say
from cronhare.domain.clashes import ONE_FILE_EACH, say_shared
from cronhare.domain.nodes import departed
from cronhare.domain.topology import MAIN_QUEUE

from . import worker
from .container import Container
from .nodes import lives
from .scheduler import ROUND, scheduler_loop, told
from .state import State
from .stopping import Stopping

log = logging.getLogger(__name__)

CONCURRENCY = 8


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
        apply(container, jobs)
        for name in jobs.on_start:
            administrator.run_now(name, params=None, now=now)
    gone = departed(claims.owners(), ourselves=container.ourselves(), lives=lives).gone
    recovered = container.reconciler().recover(now, gone=gone)
    if recovered.republished or recovered.lost:
        text = f"Taking up {recovered.republished} executions, {recovered.lost} were cut off"
        say(log, logging.INFO, "recover", text)


def take(container: Container, jobs: JobsFile) -> None:
    """Make schedules of a jobs file that was read again; a new queue would need a restart."""
    apply(container, jobs)
    if strange := [queue for queue in queues_of(jobs) if queue not in container.queues()]:
        text = f"These queues are new, and are served from the next start on: {', '.join(strange)}"
        say(log, logging.WARNING, "reload.restart", text)


def apply(container: Container, jobs: JobsFile) -> None:
    """Make the schedules as a jobs file says."""
    administrator, now = container.administrator(), container.claims().now()
    _tell_of_other_files(administrator, jobs)
    changes = administrator.bring_up_to_date(jobs.drafts, source=jobs.source, now=now)
    counts = Counter(change.change for change in changes)
    text = f"{jobs.path}: {len(jobs.tasks)} tasks, {len(jobs.drafts)} schedules"
    news = f"{counts[Change.ADD]} new, {counts[Change.CHANGE]} changed"
    say(log, logging.INFO, "jobs", f"{text}: {news}, {counts[Change.DISABLE]} others disabled")
    if gone := [change.name for change in changes if change.change is Change.DISABLE]:
        say(log, logging.WARNING, "jobs.disabled", f"{jobs.path}: {say_disabled(gone, jobs)}")


def say_disabled(names: Sequence[str], jobs: JobsFile) -> str:
    """Say what a file has no more, and how two files of one name are told apart."""
    others = f" and {len(names) - MOST_NAMED} others" if len(names) > MOST_NAMED else ""
    return (
        f"disabled, for they came from {jobs.source} and are not in it: "
        f"{', '.join(names[:MOST_NAMED])}{others}. If another file of that name has them, give "
        'this one a name of its own in its first line: source = "…"'
    )


def _tell_of_other_files(administrator: Administrator, jobs: JobsFile) -> None:
    """Warn of what other files on this ledger share with ours: nobody runs another's commands."""
    for clash in administrator.clashes(jobs.drafts, tasks=jobs.tasks, source=jobs.source):
        say(log, logging.WARNING, "jobs.clash", f"{jobs.path}: {clash}")
    shared = administrator.shared_queues(jobs.drafts, source=jobs.source)
    for queue, sources in shared.items():
        text = f"{say_shared(queue, sources)}: {ONE_FILE_EACH}"
        say(log, logging.WARNING, "jobs.shared-queue", text)


async def run(
    container: Container,
    stopping: Stopping,
    state: State,
    *,
    concurrency: int,
    on_boot: Sequence[str] = (),
) -> None:
    """Be scheduler and worker until a signal comes; the scheduler ends first."""
    state.also(partial(told, container))
    text = "Running; Ctrl-C ends it. From another terminal: cronhare executions list"
    say(log, logging.INFO, "running", text)
    loop = scheduler_loop(container)
    working = asyncio.create_task(
        worker.run(container, stopping, state, concurrency=concurrency, on_boot=on_boot)
    )
    loop.start()
    await stopping.asked.wait()
    await asyncio.to_thread(loop.stop, patience=ROUND)
    await working
