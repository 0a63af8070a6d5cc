"""How `up`, `scheduler`, `worker` and `web` start, once their options are read.

Each imports what the others do without where it is used.
"""

# ruff: noqa: PLC0415 - as said above

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from cronhare.adapters.addresses import LedgerFile
from cronhare.adapters.extras import ExtraMissing, require
from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid
from cronhare.adapters.sql.dialects.sqlite_file import Occupied, occupy
from cronhare.application.logs import say
from cronhare.domain.events.targets import Subscriptions
from cronhare.domain.schedules.keys import is_standalone, standalone_queue
from cronhare.domain.texts.words import counted, listed
from cronhare.domain.topology import DEFAULT_WEIGHT
from cronhare.ports import LedgerUnavailable

from .. import logs
from ..container import Container
from ..given import Named, as_argument, read, tasks_of
from ..processes.lifetime import Lifetime, announce, refuse_without_token
from ..processes.loops import ledger_is_ready
from ..processes.reloading import Reloading
from ..settings import IN_A_WORKER, IN_UP, forms
from ..settings.settings import Settings, SettingsInvalid
from ..signals import Shutdown, on_a_terminal
from ..working import WorkingContainer
from .errors import Refusal
from .wiring import load_all, named, read_settings, usable

log = logging.getLogger(__name__)

_NOT_SHARED = (
    "CRON_BROKER_URL: memory:// is a broker inside of one process, and this one needs one "
    "that others reach: amqp://user:password@host:5672/vhost. On one machine `cronhare up` "
    "is scheduler and worker in one"
)
_SHARED = (
    "CRON_BROKER_URL: memory:// is a broker inside of this process, and the ledger is on a server: "
    "others may work on it, and what they claim would never get here. Set it to a RabbitMQ, "
    "amqp://user:password@host:5672/vhost; or keep the ledger in a file that this process has for "
    "itself, CRON_DATABASE_URL=sqlite:///cronhare.sqlite3"
)


_STATE: Final = "Nothing was started."


def _files_of(
    given: Named, settings: Settings, *, without: str = "all that is due would fail for good"
) -> tuple[JobsFile, ...]:
    why = f", and without tasks {without}"
    places = named(given, settings, _STATE, how="--jobs jobs.toml", why=why)
    files = load_all(places, settings, state=_STATE)
    for file in files:
        if not file.tasks:  # an editor empties a file before it writes it
            to_apply = f"cronhare apply {as_argument(file.path)}"
            advice = (
                f"{_STATE} Was it being written? Then start again. To switch off all that it had: "
                f"{to_apply}"
            )
            raise Refusal(f"{file.path} has no task at all: {without}", advice=advice)
    return files


def _subscriptions_of(files: Sequence[JobsFile | None]) -> dict[str, Subscriptions]:
    names = ("subscriptions", "more_subscriptions")
    return {name: file.subscriptions for name, file in zip(names, files, strict=False) if file}


def _parts_of(files: Sequence[JobsFile]) -> dict[str, Any]:
    versions = [file.version for file in files]
    return {"tasks": tasks_of(files), "file_versions": versions, **_subscriptions_of(files)}


def _say_tasks(files: Sequence[JobsFile]) -> str:
    return " and ".join(f"{counted(len(file.tasks), 'task')} of {file.path}" for file in files)


def _shared_settings() -> Settings:
    """Read the settings, and refuse a broker in memory: no other process would ever hear of it."""
    settings = read_settings()
    if settings.in_memory:
        raise SettingsInvalid((_NOT_SHARED,))
    return settings


def _occupy_ledger(settings: Settings) -> None:
    """Be alone on this ledger if our broker is in memory: others would claim, and never hear.

    All others share it, so that none that wants to be alone comes later. On a server that cannot
    be had: a lock of its sessions ends with a link that breaks.
    """
    ledger, alone = settings.ledger, settings.in_memory
    if not isinstance(ledger, LedgerFile):
        if alone:
            raise SettingsInvalid((_SHARED,))
        return
    try:
        occupy(Path(ledger.path), alone=alone)
    except Occupied as other:
        # An exclusive request is refused while others share the ledger.
        who = ", a scheduler or a worker" if alone else ", whose broker is its own,"
        raise Refusal(
            f"another `cronhare up`{who} works on {ledger.path}",
            advice=(
                "Nothing was begun. Put all tasks and schedules into its jobs file, or give this "
                "one a ledger of its own, CRON_DATABASE_URL=sqlite:///…; or set CRON_BROKER_URL "
                "to a RabbitMQ, where any number work together."
            ),
        ) from other


async def _with_ledger(
    container: Container, shutdown: Shutdown, process: Callable[[], Coroutine[None, None, None]]
) -> None:
    """Run a process once its ledger is there and may be used; not at all if it is to end before."""
    if await ledger_is_ready(container.engine(), shutdown):
        _occupy_ledger(container.settings())
        await process()


def run_scheduler(given: Named) -> None:
    from ..processes import scheduler as process

    settings = _shared_settings()
    last = targets_for_alerts(given, settings)
    told = _subscriptions_of(last)
    container = usable(WorkingContainer(settings=settings, queues=settings.queues, **told))
    announce(container, "Scheduler", f"queues {listed(settings.queues)}")
    life = Lifetime(container, grace=process.ROUND)
    stand_in = process.StandIn(container)
    reloading = Reloading(
        container,
        forced_exit=life.shutdown.forced_exit,
        named=given,
        has_tasks=False,
        last=last,
        take=lambda files: stand_in.take([file.subscriptions for file in files]),
    )
    run = partial(process.run, container, life.shutdown, life.state, stand_in=stand_in)
    life.run(_with_ledger(container, life.shutdown, run), on_hangup=reloading.reload)


def targets_for_alerts(given: Named, settings: Settings) -> Sequence[JobsFile | None]:
    """Read whom to tell of alerts: a file that cannot be used stops no scheduling (ADR 21)."""
    found = list[JobsFile | None]()
    for place in given.places(settings):
        try:
            found.append(read(place, policy=settings.policy))
        except (JobsFileInvalid, OSError) as error:
            why = f"its targets are not told of alerts from here: {error}"
            say(log, logging.WARNING, "notify.lacking", f"{place} cannot be used, so {why}")
            found.append(None)
    return found


def run_worker(
    given: Named, concurrency: int | None, *, queues: str | None, standalone: str | None
) -> None:
    from ..processes import worker as process

    settings = _shared_settings()
    served = _served(settings, queues)
    if standalone is not None:
        if queues is not None or concurrency is not None:
            what = "--standalone: such a worker serves one queue, one run at a time"
            raise Refusal(what, advice=f"{_STATE} Leave out --queues and --concurrency.")
        served = {standalone_queue(standalone): DEFAULT_WEIGHT}
    if foreign := [name for name in served if name in settings.foreign_queues]:
        # What arrives there has ended for us.
        raise Refusal(
            f"{', '.join(foreign)}: another program serves it, by CRON_FOREIGN_QUEUES",
            advice="Name other queues (--queues, CRON_QUEUES), or take it out there.",
        )
    files = _files_of(given, settings)
    parts = _parts_of(files)
    container = usable(
        WorkingContainer(settings=settings, queues=tuple(served), weights=served, **parts)
    )
    # S1.7 in docs/compatibility.md
    at_a_time = 1 if standalone is not None else concurrency or settings.concurrency or IN_A_WORKER
    tasks = f"{_say_tasks(files)}, {at_a_time} at a time"
    announce(container, "Worker", f"queues {listed(forms.queue_texts(served))}", tasks)
    life = Lifetime(container, grace=settings.shutdown_grace.total_seconds())
    reloading = Reloading(
        container,
        forced_exit=life.shutdown.forced_exit,
        named=given,
        last=files,
        renew=container.functions().renew,
    )
    if on_start := [name for file in files for name in file.on_start]:
        text = (
            f"on_start is for `cronhare up`; no worker begins {', '.join(on_start)}. "
            "on_boot = true runs once per boot of the host"
        )
        say(log, logging.WARNING, "jobs.on-start", text)
    run = partial(
        process.run,
        container,
        life.shutdown,
        life.state,
        concurrency=at_a_time,
        read_again=reloading.reload_if_changed,
        on_boot=_on_boot(files) if standalone is None else (),
        standalone=() if standalone is None else (standalone,),
    )
    life.run(_with_ledger(container, life.shutdown, run), on_hangup=reloading.reload)


def _on_boot(files: Sequence[JobsFile]) -> Sequence[str]:
    return [name for file in files for name in file.on_boot]


def _served(settings: Settings, queues: str | None) -> Mapping[str, int]:
    if not queues:
        return settings.served
    try:
        served = forms.served_queues(queues)
    except ValueError as error:
        raise Refusal(f"--queues: {error}", advice=_STATE) from error
    if own := [name for name in served if is_standalone(name)]:
        why = "the schedule of such a queue has a worker of its own"
        advice = f"{_STATE} Start it with --standalone NAME."
        raise Refusal(f"--queues: {listed(own)}: {why}", advice=advice)
    return served


def run_up(given: Named, concurrency: int | None, *, web: bool, watches: bool) -> None:
    from ..processes import embedded
    from ..web.beside import WebBeside

    settings = read_settings()
    files = _files_of(given, settings)
    try:
        queues = forms.checked_queues(embedded.queues_of(files))
    except ValueError as error:
        advice = f"{_STATE} Give some of its schedules a queue in common."
        raise Refusal(f"{_say_tasks(files)}: {error}", advice=advice) from error
    parts = {"jobs_files": files, "weights": settings.served, **_parts_of(files)}
    container = usable(WorkingContainer(settings=settings, queues=queues, **parts))
    logs.sign_as(container.node())
    say(log, logging.INFO, "up", f"Ledger {settings.ledger}")
    _occupy_ledger(settings)
    embedded.prepare(container, files)
    life = Lifetime(container, grace=settings.shutdown_grace.total_seconds(), with_page=True)
    shutdown = life.shutdown
    reloading = Reloading(
        container,
        forced_exit=shutdown.forced_exit,
        named=given,
        last=files,
        take=partial(embedded.take, container),
        renew=container.functions().renew,
    )

    def has_begun() -> bool:
        return container.dispatcher().outlook[0] is not None

    process = embedded.run(
        container,
        shutdown,
        life.state,
        concurrency=concurrency or settings.concurrency or IN_UP,
        read_again=reloading.reload_if_changed,
        on_boot=_on_boot(files),
        beside=WebBeside(container, has_begun=has_begun) if web else None,
        watch=reloading.watch if watches else None,
    )
    life.run(process, on_hangup=shutdown.hang_up if on_a_terminal() else reloading.reload)


def run_web(given: Named) -> None:
    settings = read_settings()
    try:
        require("web")
    except ExtraMissing as error:
        raise Refusal(f"web: {error}", advice=_STATE) from error
    from ..web import server

    without = "nothing could be created, and no number of a task be called by its name"
    files = _files_of(given, settings, without=without)
    container = usable(Container(settings=settings, jobs_files=files, **_parts_of(files)))
    with suppress(LedgerUnavailable):  # then it is asked before anything is answered
        refuse_without_token(container)
    try:
        bound = server.bind(settings.listen_address)
    except OSError as error:
        raise Refusal(
            f"{settings.called('web_address')}: {settings.listen_address}: {error.strerror}",
            advice=f"{_STATE} Name another port; is a `cronhare up` there, or another "
            "`cronhare web`?",
        ) from error
    logs.sign_as(container.node())
    text = f"Web {container.node()}: ledger {settings.ledger}; {_say_tasks(files)}"
    say(log, logging.INFO, "process.start", text)
    life = Lifetime(container, grace=2 * server.ENDING, with_page=True)
    reloading = Reloading(container, forced_exit=life.shutdown.forced_exit, named=given, last=files)

    async def run() -> None:
        # It works on no queue, so it may stand beside an `up` that is alone on its ledger.
        if await ledger_is_ready(container.engine(), life.shutdown):
            refuse_without_token(container)
            await server.run(container, life.shutdown, bound)

    life.run(run(), on_hangup=reloading.reload)
