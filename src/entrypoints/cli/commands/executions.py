"""`cronhare executions list | show | logs | cancel`."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from cronhare.domain.execution import REPLAYABLE, UNFINISHED, State, say_progress
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.schedules.keys import Trigger
from cronhare.domain.texts.moments import say_took
from cronhare.ports.records import ExecutionFilter

from ...node_identity import this_actor
from ..bounds import MOST_LINES
from ..completion import EXECUTIONS
from ..errors import Refusal
from ..execution_output import show_attempts, show_execution
from ..failure_options import OfSchedule, OfTask
from ..output import Json, Styled, print_json, print_line, state
from ..rows import Columns, print_rows
from ..times import IN_UTC, PAST, none_since, read_span
from ..watched import Watch, change_line, print_changes
from ..wiring import open_ledger

if TYPE_CHECKING:
    from rich.text import Text

    from cronhare.application.administration.views.executions import ExecutionView

ID = Annotated[
    int,
    typer.Argument(
        min=1,
        max=LARGEST_ID,
        help="The execution's number.",
        show_default=False,
        autocompletion=EXECUTIONS,
    ),
]


def list_(
    *,
    schedule: OfSchedule = None,
    task: OfTask = None,
    states: Annotated[
        list[State] | None,
        typer.Option("--state", help="Only those in this state; may be repeated."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help=f"Claimed at this time or later: {PAST}. {IN_UTC}."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Claimed before this time, written the same way.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LINES, help="At most so many.")] = 20,
    watch: Watch = False,
    json: Json = False,
) -> None:
    """List executions, newest first; with --watch the newest last, until Ctrl-C.

    With --watch and --json each look at which something has changed is one line.
    """
    queries = open_ledger().queries()
    first, last = read_span(since, until, now=queries.now())
    which = ExecutionFilter(
        schedule=schedule,
        task=task,
        states=tuple(states or ()),
        since=first,
        until=last,
        limit=limit,
    )
    if watch:
        print_changes(queries.watch(which, pause=time.sleep), _change, json=json)
        return
    found = queries.executions(which)
    columns: Columns[ExecutionView] = {
        "ID": "id",
        "SCHEDULE": "schedule_name",
        "TASK": "called",
        "DUE": "due_at",
        "STATE": _state,
        "ATTEMPT": "attempt",
        "ENDED": "finished_at",
        "TOOK": _took,
        "ERROR": lambda execution: _short(execution.last_error),
    }
    print_rows(
        found,
        columns,
        json=json,
        empty=none_since("No executions.", first, last),
        spare=("TASK", "ATTEMPT", "ENDED"),
        elastic=("ERROR",),
    )


def _change(execution: "ExecutionView") -> "Text":
    return change_line(
        execution.id,
        execution.due_at,
        execution.state,
        attempt=execution.attempt if execution.started_at else None,
        schedule=execution.schedule_name,
        rest=" (backfill)" if execution.trigger is Trigger.BACKFILL else "",
    )


def show(execution_id: ID, *, json: Json = False) -> None:
    """Show one execution with its attempts: who runs it, or what it waits for.

    `cronhare explain ID` says why it is where it is, and what to look at.
    """
    found = open_ledger().queries().execution(execution_id)
    if json:
        print_json(found)
        return
    show_execution(found.execution)
    show_attempts(found.attempts)


def cancel(
    ids: Annotated[
        list[int] | None,
        typer.Argument(min=1, max=LARGEST_ID, help="Their numbers.", autocompletion=EXECUTIONS),
    ] = None,
    *,
    schedule: OfSchedule = None,
) -> None:
    """Ask for the end of executions, whether they wait or run.

    With --schedule of all that have not ended, 10,000 at most.
    """
    if bool(ids) == (schedule is not None):
        raise Refusal("say which: numbers from `cronhare executions list`, or --schedule")
    container = open_ledger()
    administrator, now = container.administrator(), container.ledger_time().now()
    if schedule is not None:
        which = ExecutionFilter(schedule=schedule, states=UNFINISHED, limit=MOST_LINES)
        ids = [execution.id for execution in container.queries().executions(which)]
    if not ids:
        print_line(f"All executions of {schedule} have ended.")
    for id_ in ids or ():
        answer = administrator.cancel(id_, now=now, actor=this_actor())
        texts = {
            State.CANCELLED: "is cancelled",
            State.RUNNING: "is running; its worker was asked to stop it",
        }
        if answer in REPLAYABLE:
            texts[answer] = f"has ended already: {answer}. Replays of many failures leave it out"
        print_line(f"Execution {id_} {texts.get(answer, f'has ended already: {answer}')}.")


def _state(execution: "ExecutionView") -> Styled:
    """Show the state, how far a running task is, and whether a backfill asked for it."""
    progress = say_progress(execution.progress, None) if execution.state is State.RUNNING else None
    backfill = " (backfill)" if execution.trigger is Trigger.BACKFILL else ""
    return state(execution.state, f"{backfill} {progress}" if progress else backfill)


def _took(execution: "ExecutionView") -> str | None:
    """Say how long it took, with the waits between its attempts."""
    if execution.started_at is None or execution.finished_at is None:
        return None
    return say_took(execution.finished_at - execution.started_at)


def _short(text: str | None) -> str:
    line = (text or "").partition("\n")[0]
    return line if len(line) <= 60 else f"{line[:57]}..."  # noqa: PLR2004 - a table's column
