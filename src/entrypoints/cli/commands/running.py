"""`cronhare up | scheduler | worker`."""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cronhare.adapters.jobs.reader import JobsFile
from cronhare.adapters.sql.dialects.sqlite.alone import Occupied, occupy
from cronhare.adapters.system.privacy import be_private
from cronhare.application.logs import say
from cronhare.domain.addresses import BrokerServer, LedgerFile
from cronhare.domain.texts.listing import counted, listed
from cronhare.domain.topology import checked_queues

from ... import logs
from ...container import Container
from ...processes import embedded, gc_tuning
from ...processes import scheduler as scheduler_process
from ...processes import worker as worker_process
from ...processes.readiness import ledger_is_ready
from ...processes.reloading import Reloading
from ...processes.state_report import State
from ...settings import forms
from ...settings.settings import MOST_AT_A_TIME, Settings, SettingsInvalid
from ...signals.forced_exit import ForcedExit
from ...signals.handlers import Answer, SignalHandlers, on_a_terminal
from ...signals.shutdown import Shutdown
from ..errors import Refusal
from ..wiring import load, read_settings, usable

log = logging.getLogger(__name__)


_SHARED = (
    "CRON_BROKER_URL: memory:// is a broker inside of this process, and the ledger is on a server: "
    "others may work on it, and what they claim would never get here. Set it to a RabbitMQ, "
    "amqp://user:password@host:5672/vhost; or keep the ledger in a file that this process has for "
    "itself, CRON_DATABASE_URL=sqlite:///cronhare.sqlite3"
)


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(up)
    app.command()(scheduler)
    app.command()(worker)


Jobs = Annotated[Path | None, typer.Option(help="The jobs file. [env: CRON_JOBS]")]
Concurrency = Annotated[
    int | None,
    typer.Option(
        min=1, max=MOST_AT_A_TIME, help="How many tasks run at a time. [env: CRON_CONCURRENCY]"
    ),
]


def up(*, jobs: Jobs = None, concurrency: Concurrency = None) -> None:
    """Apply a jobs file, and run scheduler and worker in this process.

    Without a terminal, SIGHUP has it read its jobs file again. SIGUSR1 tells its state in the log.
    """
    attention = SignalHandlers()
    settings = read_settings()
    file = _jobs_file(jobs, settings)
    queues = _queues_of(file)
    container = usable(Container(settings=settings, tasks=file.tasks, queues=queues))
    logs.sign_as(container.node())
    say(log, logging.INFO, "up", f"Ledger {settings.ledger}")
    _refuse_company(settings)
    embedded.prepare(container, file)
    at_a_time = concurrency or settings.concurrency or embedded.CONCURRENCY
    stopping, state = Shutdown(ForcedExit(grace=_grace(settings))), State(container)
    take = partial(embedded.take, container)
    reloading = Reloading(
        container,
        resort=stopping.resort,
        jobs=jobs,
        has_schedules=bool(file.drafts),
        take=take,
    )
    hangup = stopping.hang_up if on_a_terminal() else reloading.reload
    process = embedded.run(container, stopping, state, concurrency=at_a_time, on_boot=file.on_boot)
    _run(_heeding(stopping, attention, _answers(hangup, state), process))
    _end(container)


def scheduler() -> None:
    """Run a scheduler: one of any number, each a full substitute for the others.

    SIGHUP has it read its settings again. SIGUSR1 tells its state in the log.
    """
    attention = SignalHandlers()
    settings = read_settings()
    _refuse_to_be_alone(settings)
    container = usable(Container(settings=settings, queues=settings.queues))
    _announce(container, "Scheduler", f"queues {listed(settings.queues)}")
    stopping, state = Shutdown(ForcedExit(grace=scheduler_process.ROUND)), State(container)
    reloading = Reloading(container, resort=stopping.resort, has_tasks=False)
    process = partial(scheduler_process.run, container, stopping, state)
    answers = _answers(reloading.reload, state)
    _run(_heeding(stopping, attention, answers, _with_ledger(container, stopping, process)))
    _end(container)


def worker(
    *,
    jobs: Jobs = None,
    concurrency: Concurrency = None,
    queues: Annotated[
        str | None, typer.Option(help="Which queues, with commas between. [env: CRON_QUEUES]")
    ] = None,
) -> None:
    """Run a worker: one of any number. Its tasks come from its own jobs file.

    SIGHUP has it read jobs file and settings again. SIGUSR1 tells its state in the log.
    """
    attention = SignalHandlers()
    settings = read_settings()
    _refuse_to_be_alone(settings)
    names = _named(queues) if queues else settings.queues
    _refuse_foreign(names, settings)
    file = _jobs_file(jobs, settings)
    container = usable(Container(settings=settings, tasks=file.tasks, queues=names))
    at_a_time = concurrency or settings.concurrency or 1  # S1.7 in docs/compatibility.md
    tasks = f"{counted(len(file.tasks), 'task')} of {file.path}, {at_a_time} at a time"
    _announce(container, "Worker", f"queues {listed(names)}", tasks)
    stopping, state = Shutdown(ForcedExit(grace=_grace(settings))), State(container)
    reloading = Reloading(
        container, resort=stopping.resort, jobs=jobs, has_schedules=bool(file.drafts)
    )
    _tell_of_starts(file)
    process = partial(
        worker_process.run, container, stopping, state, concurrency=at_a_time, on_boot=file.on_boot
    )
    answers = _answers(reloading.reload, state)
    _run(_heeding(stopping, attention, answers, _with_ledger(container, stopping, process)))
    _end(container)


def _tell_of_starts(file: JobsFile) -> None:
    if file.on_start:
        text = (
            f"on_start is for `cronhare up`; no worker begins {', '.join(file.on_start)}. "
            "on_boot = true runs once per boot of the host"
        )
        say(log, logging.WARNING, "jobs.on-start", text)


def _queues_of(file: JobsFile) -> tuple[str, ...]:
    try:
        return checked_queues(embedded.queues_of(file))
    except ValueError as error:
        advice = "Nothing was started. Give some of its schedules a queue in common."
        raise Refusal(f"{file.path}: {error}", advice=advice) from error


def _named(queues: str) -> tuple[str, ...]:
    try:
        return forms.queues(queues)
    except ValueError as error:
        raise Refusal(f"--queues: {error}", advice="Nothing was started.") from error


def _jobs_file(jobs: Path | None, settings: Settings) -> JobsFile:
    """Read the tasks: who has none would take what waits, and end all of it as failed for good."""
    path = jobs or settings.jobs
    if path is None:
        raise Refusal(
            "no jobs file is named, and without tasks all that is due would fail for good",
            advice="Nothing was started. Name it: --jobs jobs.toml, or CRON_JOBS.",
        )
    file = load(path, settings, state="Nothing was started.")
    if not file.tasks:  # an editor empties a file before it writes it
        raise Refusal(
            f"{file.path} has no task at all: all that is due would fail for good",
            advice=(
                "Nothing was started. Was it being written? Then start again. To switch off all "
                f"that it had: cronhare apply {file.path}"
            ),
        )
    return file


def _refuse_to_be_alone(settings: Settings) -> None:
    """A broker in memory would be this process's own: no other would ever hear of it."""
    if settings.broker_kind == "memory":
        fault = (
            "CRON_BROKER_URL: memory:// is a broker inside of one process, and this one needs one "
            "that others reach: amqp://user:password@host:5672/vhost. On one machine `cronhare up` "
            "is scheduler and worker in one"
        )
        raise SettingsInvalid((fault,))


def _refuse_company(settings: Settings) -> None:
    """Be alone on this ledger if our broker is in memory: others would claim, and never hear.

    All others share it, so that nobody who wants to be alone comes later. Nobody can be alone on a
    server: a lock of its sessions ends with a link that breaks.
    """
    ledger, alone = settings.ledger, settings.broker_kind == "memory"
    if not isinstance(ledger, LedgerFile):
        if alone:
            raise SettingsInvalid((_SHARED,))
        return
    try:
        occupy(Path(ledger.path), alone=alone)
    except Occupied as other:
        raise Refusal(
            f"{_others(alone=alone)} on {ledger.path}",
            advice=(
                "Nothing was begun. Put all tasks and schedules into its jobs file, or give this "
                "one a ledger of its own, CRON_DATABASE_URL=sqlite:///…; or set CRON_BROKER_URL "
                "to a RabbitMQ, where any number work together."
            ),
        ) from other


def _others(*, alone: bool) -> str:
    """Say who works on a ledger: who wants it alone is refused for whoever shares it, too."""
    if alone:
        return "another `cronhare up`, a scheduler or a worker works"
    return "another `cronhare up`, whose broker is its own, works"


def _refuse_foreign(names: Sequence[str], settings: Settings) -> None:
    """Nothing would run: what arrives in a queue of another program has ended for us."""
    if foreign := [name for name in names if name in settings.foreign_queues]:
        raise Refusal(
            f"{', '.join(foreign)}: another program serves it, by CRON_FOREIGN_QUEUES",
            advice="Name other queues (--queues, CRON_QUEUES), or take it out there.",
        )


def _run(process: Coroutine[None, None, None]) -> None:
    """Run what lives long, out of sight of the tasks."""
    be_private()
    gc_tuning.spare()
    asyncio.run(process)


def _announce(container: Container, what: str, *more: str) -> None:
    """Say what a process is, before it waits for its servers."""
    settings = container.settings()
    logs.sign_as(container.node())
    doorbell = BrokerServer.parse(settings.broker_url)
    parts = (f"ledger {settings.ledger}", f"doorbell {doorbell}", *more)
    text = f"{what} {container.node()}: {'; '.join(parts)}"
    say(log, logging.INFO, "process.start", text)


def _grace(settings: Settings) -> float:
    return settings.shutdown_grace.total_seconds()


def _answers(hangup: Answer, state: State) -> Mapping[signal.Signals, Answer]:
    return {signal.SIGHUP: hangup, signal.SIGUSR1: state.tell}


async def _heeding(
    stopping: Shutdown,
    attention: SignalHandlers,
    answers: Mapping[signal.Signals, Answer],
    process: Coroutine[None, None, None],
) -> None:
    """Be a process, and heed its signals."""
    stopping.listen()
    attention.listen(answers)
    await process


async def _with_ledger(
    container: Container, stopping: Shutdown, process: Callable[[], Coroutine[None, None, None]]
) -> None:
    if await ledger_is_ready(container.engine(), stopping):
        _refuse_company(container.settings())
        await process()


def _end(container: Container) -> None:
    container.engine().dispose()
    say(log, logging.INFO, "shutdown.complete", "Shutdown complete")
