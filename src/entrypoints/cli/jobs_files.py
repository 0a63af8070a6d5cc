"""The jobs files that commands are given: how they are named, read, and refused.

Their reader is imported where it is used: a page of help needs nothing of it.
"""

# ruff: noqa: PLC0415 - as said above

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import Refusal, file_refusal
from .progress import working

if TYPE_CHECKING:
    from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid

    from ..settings.settings import Settings

Jobs = Annotated[Path | None, typer.Option(help="The jobs file. [env: CRON_JOBS]")]
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


def named(jobs: Path | None, settings: "Settings", state: str, *, how: str, why: str = "") -> Path:
    """Give the jobs file that the command names, else that of the settings."""
    if (path := jobs or settings.jobs) is None:
        advice = f"{state} Name it: {how}, or CRON_JOBS."
        raise Refusal(f"no jobs file is named{why}", advice=advice)
    return path


def load(path: Path, settings: "Settings", *, state: str) -> "JobsFile":
    """Read a jobs file; *state* says what was not done if it is faulty."""
    from cronhare.adapters.jobs.reader import JobsFileInvalid, read_jobs

    try:
        with working(f"Reading {path}") as on_progress:
            return read_jobs(path, policy=settings.policy, on_progress=on_progress)
    except JobsFileInvalid as error:
        raise jobs_refusal(error, state) from error
    except OSError as error:
        raise file_refusal(error, path, state) from error


def jobs_refusal(error: "JobsFileInvalid", state: str) -> Refusal:
    """Say what is wrong with a jobs file; *state* says what was done, which is nothing."""
    from cronhare.domain.texts.words import counted

    places = {fault.place for fault in error.faults}
    what = f"{error.path}: {counted(len(error.faults), 'fault')} in {counted(len(places), 'place')}"
    if len(error.faults) == 1:
        what = f"{error.path}: one fault"
    advice = f"{state} Fix the file, then run: cronhare check {error.path}"
    return Refusal(what, [str(fault) for fault in error.faults], advice)
