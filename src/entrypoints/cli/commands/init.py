"""`cronhare init`: a jobs file to begin with."""

import shlex
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from ..errors import Refusal
from ..output import print_line


def init(
    jobs: Annotated[Path, typer.Argument(help="The file to make.", metavar="JOBS.TOML")] = Path(
        "jobs.toml"
    ),
) -> None:
    """Make a jobs file with comments, of one task that runs every minute."""
    named = shlex.quote(str(jobs))
    content = (files("cronhare.entrypoints.cli") / "first_jobs.toml").read_text()
    try:
        with jobs.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError as error:
        advice = f"Nothing was written. What is wrong with it, if anything: cronhare check {named}"
        raise Refusal(f"{jobs} is there already", advice=advice) from error
    except OSError as error:
        raise Refusal(f"{jobs}: {error.strerror}", advice="Nothing was written.") from error
    print_line(f"Made {jobs}: one task, one schedule, and what else there may be as comments.")
    print_line("Next, each in a window of its own:")
    print_line(f"  cronhare up --jobs {named}")
    print_line("  cronhare schedules")
    print_line("  cronhare logs hello -f")
