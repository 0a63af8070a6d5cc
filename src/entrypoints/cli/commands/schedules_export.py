"""`cronhare schedules export`."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, read_jobs_text
from cronhare.adapters.jobs.writer import write_jobs
from cronhare.application.administration.jobs_file.export import CannotExport, Chosen, Exporter
from cronhare.application.administration.views.schedules import ExportView
from cronhare.domain.texts.printable import printable
from cronhare.domain.texts.words import NAME, counted, listed

from ..completion import SCHEDULES
from ..errors import Refusal, file_refusal
from ..jobs_files import jobs_refusal
from ..output import Json, print_json
from ..wiring import open_ledger

Names = Annotated[
    list[str] | None,
    typer.Argument(help="Only these schedules.", show_default=False, autocompletion=SCHEDULES),
]


def export(
    names: Names = None,
    *,
    source: Annotated[
        str | None, typer.Option(help="Those of this jobs file; needed if there are several.")
    ] = None,
    by_hand: Annotated[
        bool, typer.Option("--by-hand", help="Those that came from no jobs file.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it here, instead of printing it.")
    ] = None,
    json: Json = False,
) -> None:
    """Write a jobs file of schedules, to which `plan` finds no difference.

    What tasks run is known to no ledger: each has a command that fails, to be replaced.
    """
    if by_hand and source is not None:
        raise Refusal("--by-hand means schedules of no source: leave one of the two out")
    container = open_ledger()
    exporter, policy = Exporter(container.schedules()), container.settings().policy
    try:
        chosen = exporter.choose(names or [], source=source, by_hand=by_hand)
        path = output or Path(chosen.source or "jobs.toml")
        written = write_jobs(
            chosen.drafts,
            source=_writable(chosen.source),
            path=path,
            policy=policy,
            calendars=chosen.calendars,
        )
        file = read_jobs_text(written.text, path, policy=policy)
    except CannotExport as error:
        raise Refusal(str(error)) from error
    except JobsFileInvalid as error:
        raise jobs_refusal(error, "Nothing was written.") from error
    kept = [draft.name for draft in file.drafts]
    view = ExportView(
        source=file.source,
        schedules=kept,
        left_out={**chosen.left_out, **written.left_out},
        differs=exporter.differences(file.drafts, file.calendars, source=file.source),
        disables=[name for name in chosen.others if name not in kept],
        text=written.text,
        calendars=[calendar.name for calendar in file.calendars],
    )
    if output is not None:
        _save(output, written.text)
    if json:
        print_json(view)
        return
    if output is None:
        sys.stdout.write(written.text)
    for line in _remarks(view, chosen, file, output):
        sys.stderr.write(f"{printable(line)}\n")


def _writable(source: str | None) -> str | None:
    """Give a source that can stand in a file; another one is the name of the file itself."""
    return source if source is not None and re.fullmatch(NAME, source) else None


def _save(path: Path, text: str) -> None:
    """Write a new file; one that is there is not replaced."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise file_refusal(error, path, "Nothing was written.") from error


def _remarks(
    view: ExportView, chosen: Chosen, file: JobsFile, output: Path | None
) -> Iterator[str]:
    where = f"Wrote {output}: " if output is not None else ""
    dated = f" and {counted(len(view.calendars), 'calendar')}" if view.calendars else ""
    schedules = f"{counted(len(view.schedules), 'schedule')}{dated}"
    yield f"{where}{schedules} of {chosen.source or 'no source'}."
    for name, why in view.left_out.items():
        yield f"left out: {name}: {why}"
    for name, source in chosen.elsewhere.items():
        yield f"calendars.{name}: stays with {source}, which has it"
    if chosen.source is not None and chosen.source != file.source:
        yield f"Its source is the name of its file: save it as {chosen.source}."
    if chosen.source is None:
        yield f"Applied, these schedules are those of {file.source}, no more by hand."
        return
    for name, fields in view.differs.items():
        yield f"differs: {name}: {listed(fields)}"
    if view.disables:
        yield f"Applied, it disables {listed([*view.disables])}: they are of {chosen.source}, too."
