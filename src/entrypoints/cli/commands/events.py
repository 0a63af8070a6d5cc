"""`cronhare events list`."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cronhare.domain.lifecycle.events import OutboxState

from ..bounds import MOST_LINES
from ..completion import SCHEDULES
from ..output import Json, moment, state
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
    found = open_ledger().outbox().events(states=states or (), schedule=schedule, limit=limit)
    columns: Columns[EventView] = {
        "EVENT": "event",
        "SCHEDULE": "schedule_name",
        "EXECUTION": "execution_id",
        "AT": "occurred_at",
        "TARGET": lambda event: event.target.rpartition(":")[2],
        "STATE": lambda event: state(event.state),
        "LAST ERROR": _error,
    }
    print_rows(
        found,
        columns,
        json=json,
        empty="No event is like that." if states or schedule else "Nobody was told of anything.",
        spare=("EXECUTION",),
        elastic=("LAST ERROR",),
    )


def _error(event: "EventView") -> str | None:
    """Say what went wrong, and when it is tried again or how often it was."""
    error = event.problem or event.last_error
    if error is None or not event.tries:
        return error
    if event.next_try_at is not None:
        is_due = event.next_try_at <= datetime.now(UTC)  # and waits for its turn
        when = "is due" if is_due else f"at {moment(event.next_try_at)}"
        return f"{error}; try {event.tries + 1} {when}"
    return f"{error}; tries: {event.tries}"
