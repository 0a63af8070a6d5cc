"""`cronhare events list`."""

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cronhare.domain.events.outbox import OutboxState, say_next_try
from cronhare.domain.texts.words import counted

from ..bounds import MOST_LINES
from ..completion import SCHEDULES
from ..output import Json, state
from ..rows import Columns, print_rows
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.views.events import EventView


def list_(
    *,
    states: Annotated[
        list[OutboxState] | None, typer.Option("--state", help="Only those in this state.")
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="Only those of this schedule.", autocompletion=SCHEDULES)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LINES, help="At most so many.")] = 100,
    json: Json = False,
) -> None:
    """List events and who is told of them, newest first.

    Only what somebody wants to know is here: `notify` and `on_failure` of the jobs file say so.
    """
    container = open_ledger()
    found = container.outbox().events(states=states or (), schedule=schedule, limit=limit)
    now = container.ledger_time().now()
    columns: Columns[EventView] = {
        "EVENT": "event",
        "SCHEDULE": "schedule_name",
        "EXECUTION": "execution_id",
        "AT": "occurred_at",
        "TARGET": lambda event: event.target.rpartition(":")[2],
        "STATE": lambda event: state(event.state),
        "LAST ERROR": partial(_error, now=now),
    }
    print_rows(
        found,
        columns,
        json=json,
        empty="No event is like that." if states or schedule else "Nobody was told of anything.",
        spare=("EXECUTION",),
        elastic=("LAST ERROR",),
    )


def _error(event: "EventView", *, now: datetime) -> str | None:
    """Say what went wrong, how often, and when it is tried again."""
    error = event.last_error
    if error is None or not event.tries:
        return error
    said = f"{error}; tried {counted(event.tries, 'time')}"
    return f"{said}; {say_next_try(event.next_try_at, now)}" if event.next_try_at else said
