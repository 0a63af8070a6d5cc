"""The jobs files and apps that commands are given: how they are named, read, and refused.

Their reader is imported where it is used: a page of help needs nothing of it.
"""

# ruff: noqa: PLC0415 - as said above

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import Refusal, Refusals, clash_refusal, file_refusal
from .output import working

if TYPE_CHECKING:
    from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid

    from ..given import Named, Place
    from ..settings.settings import Settings

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

    log = logging.getLogger(__name__)
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
