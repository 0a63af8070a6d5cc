"""`cronhare explain`."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cronhare.domain.cron import find_zone
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.texts.moments import say_due

from ..completion import runs
from ..execution_output import show_attempts
from ..output import Json, local_time, print_json, print_line
from ..times import read_time
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.reading.queries import Queries

What = Annotated[
    str,
    typer.Argument(
        metavar="NAME|ID",
        help="A schedule's name, or the number of an execution.",
        show_default=False,
        autocompletion=runs,
    ),
]

AT: Final = (
    "With a schedule's name: an ISO date-time, or a time of the day, which is the last one: "
    "08:00Z. Without an offset it is in the schedule's zone. Its last due instant by default."
)


def explain(
    what: What,
    *,
    at: Annotated[str | None, typer.Option("--at", help=AT, show_default=False)] = None,
    json: Json = False,
) -> None:
    """Say why a schedule ran at an instant, or did not; or why an execution is where it is.

    A number is an execution's, as `cronhare executions list` and the logs have it; a schedule
    whose name is a number needs --at.
    """
    container = open_ledger()
    explanations = container.explanations()
    is_an_execution = at is None and what.isascii() and what.isdigit()
    found = (
        explanations.of_execution(_execution_id(what))
        if is_an_execution
        else explanations.of_instant(
            what, None if at is None else _instant(container.queries(), what, at)
        )
    )
    if json:
        print_json(found)
        return
    local = local_time(found.instant, find_zone(found.timezone))
    there = f" ({local:%H:%M %Z})" if local else ""
    print_line(f"{found.schedule_name} at {say_due(found.instant)}{there}")
    print_line(found.answer, style="bold")
    for reason in found.because:
        print_line(reason, indent=2)
    if found.execution is not None:
        print_line(f"Execution {found.execution.id}, key {found.execution.key}.", indent=2)
    if found.attempts:
        show_attempts(found.attempts)


def _execution_id(text: str) -> int:
    """Read a number of any length; 0, which no execution has, for one that is too large."""
    id_ = int(text) if len(text) <= len(str(LARGEST_ID)) else 0
    return id_ if id_ <= LARGEST_ID else 0


def _instant(queries: "Queries", name: str, at: str) -> datetime:
    zone = find_zone(queries.schedule(name).timezone or "UTC")
    return read_time(at, zone, now=queries.now(), towards=-1)
