"""How `cronhare worker` starts, once its options are read."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cronhare.adapters.jobs.reader import JobsFile
from cronhare.application.logs import say
from cronhare.domain.schedules.keys import is_standalone, standalone_queue
from cronhare.domain.texts.words import counted, listed
from cronhare.domain.topology import DEFAULT_WEIGHT, ServedQueues

from ...processes import worker as worker_process
from ...processes.lifetime import Lifetime, announce
from ...processes.reloading import Reloading
from ...settings import forms
from ...settings.bounds import IN_A_WORKER
from ...settings.settings import Settings
from ...working import WorkingContainer
from ..errors import Refusal
from ..long_lived import jobs_file, refuse_memory_broker, with_ledger
from ..wiring import read_settings, usable

log = logging.getLogger(__name__)


def run_worker(
    jobs: Path | None, concurrency: int | None, *, queues: str | None, standalone: str | None
) -> None:
    """Run a worker until it is told to end."""
    settings = read_settings()
    refuse_memory_broker(settings)
    if standalone is not None:
        _refuse_beside(queues, concurrency)
        served = ServedQueues({standalone_queue(standalone): DEFAULT_WEIGHT})
    else:
        served = _served(queues) if queues else settings.served
    _refuse_foreign(served.names, settings)
    file = jobs_file(jobs, settings)
    container = usable(
        WorkingContainer(
            settings=settings,
            tasks=file.tasks,
            file_version=file.version,
            subscriptions=file.subscriptions,
            queues=served.names,
            weights=served.weights,
        )
    )
    # S1.7 in docs/compatibility.md
    at_a_time = 1 if standalone is not None else concurrency or settings.concurrency or IN_A_WORKER
    tasks = f"{counted(len(file.tasks), 'task')} of {file.path}, {at_a_time} at a time"
    announce(container, "Worker", f"queues {listed(served.texts)}", tasks)
    life = Lifetime(container, grace=settings.shutdown_grace.total_seconds())
    shutdown = life.shutdown
    reloading = Reloading(container, forced_exit=shutdown.forced_exit, jobs=jobs, last=file)
    _warn_of_on_start(file)
    begin = partial(worker_process.run, container, shutdown, life.state)
    kept = () if standalone is None else (standalone,)
    on_boot = () if kept else file.on_boot
    run = partial(
        begin,
        concurrency=at_a_time,
        read_again=reloading.reload_if_changed,
        on_boot=on_boot,
        standalone=kept,
    )
    life.run(with_ledger(container, shutdown, run), on_hangup=reloading.reload)


def _warn_of_on_start(file: JobsFile) -> None:
    if file.on_start:
        text = (
            f"on_start is for `cronhare up`; no worker begins {', '.join(file.on_start)}. "
            "on_boot = true runs once per boot of the host"
        )
        say(log, logging.WARNING, "jobs.on-start", text)


def _refuse_beside(queues: str | None, concurrency: int | None) -> None:
    beside = {"--queues": queues, "--concurrency": concurrency}
    if given := [option for option, value in beside.items() if value is not None]:
        raise Refusal(
            f"--standalone: such a worker serves one queue, one run at a time; "
            f"{' and '.join(given)} cannot be given as well",
            advice="Nothing was started.",
        )


def _served(queues: str) -> ServedQueues:
    try:
        served = forms.served_queues(queues)
    except ValueError as error:
        raise Refusal(f"--queues: {error}", advice="Nothing was started.") from error
    if own := [name for name in served.names if is_standalone(name)]:
        raise Refusal(
            f"--queues: {listed(own)}: the schedule of such a queue has a worker of its own",
            advice="Start it with --standalone NAME.",
        )
    return served


def _refuse_foreign(names: Sequence[str], settings: Settings) -> None:
    """Refuse queues of another program: what arrives there has ended for us."""
    if foreign := [name for name in names if name in settings.foreign_queues]:
        raise Refusal(
            f"{', '.join(foreign)}: another program serves it, by CRON_FOREIGN_QUEUES",
            advice="Name other queues (--queues, CRON_QUEUES), or take it out there.",
        )
