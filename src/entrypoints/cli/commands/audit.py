"""`cronhare audit list`."""

from typing import Annotated, Final

import typer

from cronhare.application.administration.reading.now import MOST_LISTED
from cronhare.application.administration.views.access import AuditView

from ..output import Json, json_line, state
from ..rows import Columns, print_rows
from ..times import IN_UTC, PAST, none_since, read_span
from ..wiring import open_ledger

#: Letters of a value in a table; `--json` has it as it is kept.
_SHOWN: Final = 60


def list_(
    *,
    since: Annotated[str | None, typer.Option(help=f"Only from then on: {PAST}. {IN_UTC}.")] = None,
    who: Annotated[
        str | None, typer.Option(help="Only of this actor: user@host, a token's name, local.")
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="Only on this: a schedule's name, an execution's number.")
    ] = None,
    before: Annotated[int | None, typer.Option(help="Only entries before this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LISTED, help="At most so many.")] = 100,
    json: Json = False,
) -> None:
    """List who changed what, newest first: from the command line, the API and the page.

    An outcome `unknown` says that the process ended before it could tell.
    """
    container = open_ledger()
    begin, _ = read_span(since, None, now=container.ledger_time().now())
    found = container.audit().entries(since=begin, actor=who, target=on, before=before, limit=limit)
    columns: Columns[AuditView] = {
        "ID": "id",
        "AT": "at",
        "WHO": "actor",
        "BY": "channel",
        "ACTION": "action",
        "ON": "target",
        "BEFORE": lambda entry: _short(entry.before),
        "AFTER": lambda entry: _short(entry.after),
        "OUTCOME": lambda entry: state(entry.outcome),
        "WHY": "problem",
    }
    is_part = {since, who, on, before} != {None}
    print_rows(
        found,
        columns,
        json=json,
        empty=none_since("No entry is like that.", begin)
        if is_part
        else "Nobody has changed anything that is kept.",
        spare=("BEFORE", "BY", "WHY"),
        elastic=("BEFORE", "AFTER", "WHY"),
    )


def _short(value: object) -> str | None:
    if value in (None, {}):
        return None
    text = json_line(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
