"""`cronhare breakers list` and `cronhare breakers reset`."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...node_identity import this_actor
from ..completion import TASKS
from ..output import Json, moment, print_json, print_line, state
from ..rows import Columns, print_rows
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.views.work import BreakerView

_NONE: Final = "No circuit breaker counts: no attempt has failed while CRON_CIRCUIT_BREAKER was on."

Task = Annotated[
    list[str],
    typer.Argument(
        help="The task: its name in a jobs file, or type and number.",
        metavar="TASK",
        autocompletion=TASKS,
    ),
]


def list_(*, json: Json = False) -> None:
    """List circuit breakers: which are open, since when, and when a retry tries again.

    A task is listed once an attempt of it failed while CRON_CIRCUIT_BREAKER was on.
    """
    columns: Columns[BreakerView] = {
        "TASK": "called",
        "STATE": lambda breaker: state(breaker.state),
        "FAILED": _failed,
        "OPEN SINCE": "opened_at",
        "PROBE AT": "probe_at",
        "PROBE": "probe",
    }
    found = open_ledger().limit_desk().breakers()
    print_rows(found, columns, json=json, empty=_NONE, spare=("PROBE", "OPEN SINCE"))


def reset(task: Task, *, json: Json = False) -> None:
    """Close a task's circuit breaker, and let it count anew: its failures are retried again.

    What it let fail stays in the archive: see `cronhare failed replay`.
    """
    was = open_ledger().limit_desk().reset(" ".join(task), actor=this_actor())
    if json:
        print_json(was)
        return
    since = f", open since {moment(was.opened_at)}" if was.opened_at else ""
    print_line(f"The circuit breaker of {was.called} counts anew; it was {was.state}{since}.")


def _failed(breaker: "BreakerView") -> str:
    """Say what opened it, or how many failures it has counted."""
    if breaker.failed is None or breaker.succeeded is None:
        return f"{breaker.failures:,}"
    return f"{breaker.failed:,} of {breaker.failed + breaker.succeeded:,}"
