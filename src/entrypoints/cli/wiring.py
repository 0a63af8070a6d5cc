"""What most commands begin with: settings, a container on the ledger, jobs files and apps.

All of it is imported where it is used: a page of help and a completion need nothing of it, and what
asks no ledger needs no adapter. Settings that cannot be used are raised as `SettingsInvalid`, a
ledger that is away or needs `cronhare db upgrade` as `LedgerUnavailable`.
"""

# ruff: noqa: PLC0415 - as said above

import atexit
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from .errors import Refusal, Refusals, clash_refusal, file_refusal
from .output import working

if TYPE_CHECKING:
    from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid
    from cronhare.domain.schedules.task import Task

    from ..container import Container
    from ..given import Named, Place
    from ..settings.settings import Settings

log = logging.getLogger(__name__)

C = TypeVar("C", bound="Container")


def open_ledger() -> "Container":
    from cronhare.adapters.sql.migrations.upgrade import check_schema

    container = wire()  # first: settings that cannot be used need no ledger to say so
    check_schema(container.engine())
    return container


def wire() -> "Container":
    return wire_with(read_settings())


def wire_with(settings: "Settings") -> "Container":
    from ..container import Container

    container = usable(Container(settings=settings, registered=RegisteredTasks(settings)))
    close_at_exit(container)
    return container


def close_at_exit(container: "Container") -> None:
    """Close the ledger when the command has ended: SQLite removes what it keeps beside the file."""
    atexit.register(container.engine().dispose)


def read_settings() -> "Settings":
    from cronhare.application.logs import say

    from .. import logs
    from ..settings.settings import Settings

    settings = Settings.read()
    logs.configure(style=settings.log_format, level=settings.log_level)
    for unknown in settings.sources.say_unknown():
        say(log, logging.WARNING, "settings.unknown", f"{unknown}: `cronhare settings` has all")
    return settings


def usable(container: C) -> C:
    from ..settings.settings import SettingsInvalid

    if faults := tuple(faults_of(container)):
        raise SettingsInvalid(faults)
    return container


def faults_of(container: "Container") -> Iterator[str]:
    from cronhare.adapters.extras import require

    from ..container import check_broker

    settings = container.settings()
    needed: dict[str, Callable[[], object]] = {"database_url": container.engine}
    if settings.broker_kind == "amqp":
        needed["broker_url"] = partial(check_broker, settings.broker_url)
    if settings.tracing:
        needed["tracing"] = partial(require, "tracing")
    for name, have in needed.items():
        try:
            have()
        except ValueError as error:
            yield f"{settings.called(name)}: {error}"


def said_ledger(settings: "Settings") -> str:
    """Name the ledger without its password: people may have several.

    A relative path is another file in each folder: it is shown in full.
    """
    from cronhare.adapters.addresses import LedgerFile

    ledger = settings.ledger
    if isinstance(ledger, LedgerFile) and not Path(ledger.path).is_absolute():
        return f"{ledger} ({Path(ledger.path).absolute()})"
    return str(ledger)


class RegisteredTasks:
    """The tasks of jobs file and app that the settings name: for commands that run none of them.

    They are read when somebody looks through them: who asks for a task by its name.
    """

    def __init__(self, settings: "Settings") -> None:
        self._settings = settings

    def __iter__(self) -> "Iterator[Task]":
        """Give them; none of what cannot be read, of which `check` and `doctor` tell."""
        from cronhare.adapters.jobs.reader import JobsFileInvalid

        from ..given import Named, read

        for place in Named().places(self._settings):
            with suppress(JobsFileInvalid, OSError):
                yield from read(place, policy=self._settings.policy).tasks


Jobs = Annotated[Path | None, typer.Option(help="The jobs file. [env: CRON_JOBS]")]
App = Annotated[
    str | None,
    typer.Option(metavar="MODULE:APP", help="The app in Python, as shop.jobs:app. [env: CRON_APP]"),
]
JobsArgument = Annotated[
    Path | None,
    typer.Argument(help="The jobs file. [env: CRON_JOBS]", metavar="JOBS.TOML", show_default=False),
]
JobsArguments = Annotated[
    list[Path] | None,
    typer.Argument(
        help="The jobs files. [env: CRON_JOBS]", metavar="JOBS.TOML", show_default=False
    ),
]


def named(
    given: "Named", settings: "Settings", state: str, *, how: str, why: str = ""
) -> "tuple[Place, ...]":
    if places := given.places(settings):
        return places
    advice = f"{state} Name it: {how}, or CRON_JOBS. An app: --app MODULE:APP, or CRON_APP."
    raise Refusal(f"no jobs file is named{why}", advice=advice)


def load(place: "Place", settings: "Settings", *, state: str) -> "JobsFile":
    """Read a jobs file, or an app; *state* says what was not done if it is faulty."""
    from cronhare.adapters.jobs.reader import JobsFileInvalid
    from cronhare.application.logs import say

    from ..given import read

    try:
        with working(f"Reading {place}") as on_progress:
            file = read(place, policy=settings.policy, on_progress=on_progress)
    except JobsFileInvalid as error:
        raise jobs_refusal(error, state) from error
    except OSError as error:
        raise file_refusal(error, Path(place), state) from error
    if file.ledger is not None and file.ledger != settings.ledger:
        why = f"its programs enqueue into {file.ledger}, and here {settings.ledger} is worked on"
        text = f"{place}: {why}: set CRON_DATABASE_URL, or leave ledger out of App(…)"
        say(log, logging.WARNING, "jobs.ledger", text)
    return file


def load_all(
    places: "Sequence[Place]",
    settings: "Settings",
    *,
    state: str,
    more: "Callable[[Sequence[JobsFile]], Iterable[Refusal]]" = lambda _: (),
) -> "tuple[JobsFile, ...]":
    """Read several, which must not have the same names; every fault is told at once.

    *more* finds others.
    """
    files: list[JobsFile] = []
    refused: list[Refusal] = []
    for place in places:
        try:
            files.append(load(place, settings, state=state))
        except Refusal as refusal:
            refused.append(refusal)
    refused += [*beside_each_other(files), *more(files)]
    if refused:
        raise Refusals(refused)
    return tuple(files)


def beside_each_other(files: "Sequence[JobsFile]") -> Iterator[Refusal]:
    from cronhare.application.administration.jobs_file.difference import clashes_among

    first: dict[str, JobsFile] = {}
    faults = [
        f"{file.path}: source: {file.source} is {other.path} already"
        for file in files
        if (other := first.setdefault(file.source, file)) is not file
    ]
    if faults:  # each would switch off what is the other's
        advice = 'Begin one of them with another name: source = "…".'
        yield Refusal("the ledger would take these files for one", faults, advice)
    if found := [*clashes_among([*first.values()])]:
        yield clash_refusal(found)


def jobs_refusal(error: "JobsFileInvalid", state: str) -> Refusal:
    from cronhare.domain.texts.words import counted

    from ..given import as_argument

    places = {fault.place for fault in error.faults}
    what = f"{error.path}: {counted(len(error.faults), 'fault')} in {counted(len(places), 'place')}"
    if len(error.faults) == 1:
        what = f"{error.path}: one fault"
    subject = "file" if isinstance(error.path, Path) else "app"
    advice = f"{state} Fix the {subject}, then run: cronhare check {as_argument(error.path)}"
    lines = [line for fault in error.faults for line in str(fault).splitlines()]
    return Refusal(what, lines, advice)
