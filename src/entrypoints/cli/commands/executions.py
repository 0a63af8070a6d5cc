"""`cronhare executions list | show | logs | cancel`."""

import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cronhare.application.administration.queries import Queries
from cronhare.application.administration.views.executions import ExecutionView
from cronhare.application.worker.live_output import EVERY
from cronhare.domain.execution import REPLAYABLE, State
from cronhare.domain.messages.messages import LARGEST_ID
from cronhare.domain.schedules.keys import Trigger
from cronhare.domain.task_report import say_progress
from cronhare.domain.texts.echo import echo
from cronhare.domain.texts.printable import printable
from cronhare.ports.records import ExecutionFilter
from cronhare.ports.runner import Captured

from ...node_identity import this_actor
from ..errors import Refusal
from ..execution_output import show_attempts, show_execution
from ..failure_options import OfTask
from ..followed import as_it_was_written, as_json_lines, under_headings
from ..output import (
    MOST_LINES,
    Columns,
    Json,
    moment,
    print_json,
    print_line,
    print_rows,
    printable_lines,
    state,
)
from ..times import read_past
from ..watched import Watch, change_line, print_changes
from ..wiring import open_ledger
from .stats import executions

if TYPE_CHECKING:
    from rich.text import Text

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

ID = Annotated[
    int,
    typer.Argument(min=1, max=LARGEST_ID, help="The execution's number.", show_default=False),
]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="As it was written, control characters and all, without headings."),
]


@app.command("list")
def list_(
    *,
    schedule: Annotated[str | None, typer.Option(help="Only those of this schedule.")] = None,
    task: OfTask = None,
    states: Annotated[
        list[State] | None,
        typer.Option("--state", help="Only those in this state; may be repeated."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Claimed at this time or later: 2026-03-28T08:00Z, 08:00, or 24h for so ago."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Claimed before this time, written likewise.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LINES, help="At most so many.")] = 20,
    watch: Watch = False,
    json: Json = False,
) -> None:
    """List executions, newest first; with --watch the newest last, until Ctrl-C.

    With --watch and --json each look at which something has changed is one line.
    """
    queries = open_ledger().queries()
    now = queries.now()
    which = ExecutionFilter(
        schedule=schedule,
        task=task,
        states=tuple(states or ()),
        since=None if since is None else _claimed("--since", since, now),
        until=None if until is None else _claimed("--until", until, now),
        limit=limit,
    )
    if watch:
        print_changes(queries.watch(which, pause=time.sleep), _change, json=json)
        return
    found = queries.executions(which)
    columns: Columns[ExecutionView] = {
        "ID": "id",
        "SCHEDULE": "schedule_name",
        "TASK": lambda execution: execution.topic or execution.task_name or execution.task,
        "DUE": "due_at",
        "STATE": _state,
        "ATTEMPT": "attempt",
        "ENDED": "finished_at",
        "ERROR": lambda execution: _short(execution.last_error),
    }
    print_rows(found, columns, json=json, empty="No executions.")


def _claimed(option: str, text: str, now: datetime) -> datetime:
    try:
        return read_past(text, now=now)
    except Refusal as refusal:
        raise Refusal(f"{option}: {refusal}") from refusal


def _change(execution: ExecutionView) -> "Text":
    return change_line(
        execution.id,
        execution.due_at,
        execution.state,
        attempt=execution.attempt if execution.started_at else None,
        schedule=execution.schedule_name,
        rest=" (backfill)" if execution.trigger is Trigger.BACKFILL else "",
    )


@app.command()
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


@app.command()
def logs(
    which: Annotated[
        str,
        typer.Argument(
            metavar="ID|SCHEDULE",
            help="The execution's number, or a schedule: its newest run.",
            show_default=False,
        ),
    ],
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run has ended, or Ctrl-C.")
    ] = False,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Print what the attempts of an execution wrote, with control characters escaped.

    With --follow and --json each line of output is one of JSON.
    """
    queries = open_ledger().queries()
    execution_id = _number(queries, which)
    if follow:
        show = as_json_lines if json else as_it_was_written if raw else under_headings
        show(queries.follow(execution_id, pause=time.sleep))
        return
    found = queries.output(execution_id)
    if json:
        print_json(found.outputs)
        return
    for output in found.outputs:
        for name, stream in (("stdout", output.stdout), ("stderr", output.stderr)):
            if raw:
                sys.stdout.write(stream.head + stream.tail)
            elif stream.bytes:
                _print_stream(f"attempt {output.attempt}, {name}{_up_to(output.as_of)}", stream)
    if found.execution.state is State.RUNNING:
        shown = next((output.as_of for output in found.outputs if output.running), None)
        # On stderr: the output may be piped on.
        sys.stderr.write(_still_runs(found.execution, shown, queries.now()))
    elif not found.outputs and not raw:
        print_line("Nothing was written.")


def _number(queries: Queries, which: str) -> int:
    """Read the number of an execution, or find the newest run of a schedule."""
    if not (which.isascii() and which.isdigit()):
        return queries.newest(which)
    number = int(which) if len(which) <= len(str(LARGEST_ID)) else 0
    if not 0 < number <= LARGEST_ID:
        raise Refusal(f"{echo(which)} is no number of an execution, 1-{LARGEST_ID}")
    return number


def _up_to(as_of: datetime | None) -> str:
    return f", up to {moment(as_of)}" if as_of else ""


def _still_runs(execution: ExecutionView, shown: datetime | None, now: datetime) -> str:
    """Say how old the shown output of a running attempt is, and where to read the rest."""
    runs = f"Attempt {execution.attempt} still runs at {printable(execution.owner or 'a worker')}"
    age = (
        f"nothing that it wrote is kept so far, which takes up to {2 * EVERY:.0f} s"
        if shown is None
        else f"what it had written {max((now - shown).total_seconds(), 0):.0f} s ago is shown"
    )
    elsewhere = f"The log of that worker has all, with execution={execution.id}."
    return f"{runs}; {age}. With -f more is shown as it comes. {elsewhere}\n"


@app.command()
def cancel(execution_id: ID) -> None:
    """Ask for the end of an execution, whether it waits or runs."""
    container = open_ledger()
    now = container.claims().now()
    answer = container.administrator().cancel(execution_id, now=now, actor=this_actor())
    texts = {
        State.CANCELLED: "is cancelled",
        State.RUNNING: "is running; its worker was asked to stop it",
    }
    if answer in REPLAYABLE:
        texts[answer] = f"has ended already: {answer}. No replay of many begins it"
    print_line(f"Execution {execution_id} {texts.get(answer, f'has ended already: {answer}')}.")


app.command("stats")(executions)


def _print_stream(name: str, stream: Captured) -> None:
    print_line(f"--- {name}, {stream.bytes} bytes", style="bold")
    sys.stdout.write(printable_lines(stream.head).removesuffix("\n") + "\n")
    if stream.tail:
        print_line("--- [what lies between was not kept]", style="bold")
        sys.stdout.write(printable_lines(stream.tail).removesuffix("\n") + "\n")


def _state(execution: ExecutionView) -> "Text":
    """Show the state, how far a running task is, and whether a backfill asked for it."""
    progress = say_progress(execution.progress, None) if execution.state is State.RUNNING else None
    shown = state(execution.state)
    if execution.trigger is Trigger.BACKFILL:
        shown = shown.append(" (backfill)")
    return shown.append(f" {progress}") if progress else shown


def _short(text: str | None) -> str:
    line = (text or "").partition("\n")[0]
    return line if len(line) <= 60 else f"{line[:57]}..."  # noqa: PLR2004 - a table's column
