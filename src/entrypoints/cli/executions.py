"""`cronhare executions list | show | logs | cancel`."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import attrs
import typer

from cronhare.application.administration.commands import NotFound
from cronhare.application.interim import EVERY
from cronhare.domain.execution import Execution, State
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.printable import printable
from cronhare.domain.schedule import SYSTEM_PREFIX
from cronhare.ports.records import Attempt, ExecutionFilter, Output
from cronhare.ports.runner import Captured

from .output import MOST_LINES, Json, facts, moment, print_json, printable_lines, state, table, tell
from .wiring import open_ledger

app = typer.Typer(
    help="What the ledger knows of each due instant.", no_args_is_help=True, rich_markup_mode=None
)

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
    states: Annotated[
        list[State] | None,
        typer.Option("--state", help="Only those in this state; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LINES, help="At most so many.")] = 20,
    json: Json = False,
) -> None:
    """List executions, newest first."""
    container = open_ledger()
    found = container.records().executions(
        ExecutionFilter(schedule=schedule, states=tuple(states or ()), limit=limit)
    )
    if not found and schedule is not None and not schedule.startswith(SYSTEM_PREFIX):
        container.administrator().schedule(schedule)  # which refuses a name that there is not
    if json:
        print_json(found)
        return
    table(
        "ID",
        "SCHEDULE",
        "TASK",
        "DUE",
        "STATE",
        "ATTEMPT",
        "ENDED",
        "ERROR",
        rows=[
            (
                execution.id,
                execution.schedule_name,
                execution.task_name or execution.task,
                execution.due_at,
                state(execution.state),
                execution.attempt,
                execution.finished_at,
                _short(execution.last_error),
            )
            for execution in found
        ],
        empty="No executions.",
    )


@app.command()
def show(execution_id: ID, *, json: Json = False) -> None:
    """Show one execution with its attempts."""
    container = open_ledger()
    records = container.records()
    execution = records.execution(execution_id)
    if execution is None:
        raise NotFound(f"there is no execution {execution_id}")
    attempts = records.attempts(execution_id)
    if json:
        print_json({"execution": execution, "attempts": attempts})
        return
    show_execution(execution, now=container.claims().now())
    show_attempts(attempts)


@app.command()
def logs(execution_id: ID, *, raw: Raw = False, json: Json = False) -> None:
    """Print what the attempts of an execution wrote, with control characters escaped."""
    container = open_ledger()
    records = container.records()
    execution = records.execution(execution_id)
    if execution is None:
        raise NotFound(f"there is no execution {execution_id}")
    outputs = records.output(execution_id)
    running = execution.attempt if execution.state is State.RUNNING else None
    if json:
        print_json([_as_json(output, running=output.attempt == running) for output in outputs])
        return
    for output in outputs:
        for name, stream in (("stdout", output.stdout), ("stderr", output.stderr)):
            if raw:
                sys.stdout.write(stream.head + stream.tail)
            elif stream.bytes:
                _print_stream(f"attempt {output.attempt}, {name}{_up_to(output.as_of)}", stream)
    if running is not None:
        shown = next((output.as_of for output in outputs if output.attempt == running), None)
        # Beside the output, for whoever pipes that on.
        sys.stderr.write(_still_runs(execution, shown, container.claims().now()))
    elif not outputs and not raw:
        tell("Nothing was written.")


def _as_json(output: Output, *, running: bool) -> dict[str, Any]:
    return {**attrs.asdict(output, recurse=False), "running": running}


def _up_to(as_of: datetime | None) -> str:
    return f", up to {moment(as_of)}" if as_of else ""


def _still_runs(execution: Execution, shown: datetime | None, now: datetime) -> str:
    """Say of a running attempt how old what is shown is, and where to read the rest."""
    runs = f"Attempt {execution.attempt} still runs at {printable(execution.owner or 'a worker')}"
    age = (
        f"nothing that it wrote is kept so far, which takes up to {2 * EVERY:.0f} s"
        if shown is None
        else f"what it had written {max((now - shown).total_seconds(), 0):.0f} s ago is shown"
    )
    return f"{runs}; {age}. The log of that worker has all, with execution={execution.id}.\n"


@app.command()
def cancel(execution_id: ID) -> None:
    """Ask for the end of an execution, whether it waits or runs."""
    container = open_ledger()
    now = container.claims().now()
    answer = container.administrator().cancel(execution_id, now=now)
    texts = {
        State.CANCELLED: "is cancelled",
        State.RUNNING: "is running; its worker was asked to stop it",
    }
    tell(f"Execution {execution_id} {texts.get(answer, f'has ended already: {answer}')}.")


def show_execution(execution: Execution, *, now: datetime) -> None:
    """Print one execution's facts. An attempt that is due *now* has no time of its own."""
    coming = execution.next_attempt_at if _waits(execution) else None
    facts(
        [
            ("execution", execution.id),
            ("schedule", f"{execution.schedule_name} (id {execution.scheduler_id})"),
            ("task", said_task(execution.task, execution.task_name, execution.source)),
            ("key", execution.key),
            ("state", state(execution.state)),
            ("due", execution.due_at),
            ("claimed", f"{moment(execution.executed_at)} by {execution.container_id}"),
            ("published", execution.published_at),
            ("next attempt", coming if coming and coming > now else None),
            ("ended", execution.finished_at),
            ("attempt", execution.attempt),
            ("deaths", execution.deaths),
            ("params", execution.params),
            ("error", execution.last_error),
            ("problem", execution.problem),
        ]
    )


def said_task(number: object, name: str | None, source: str | None) -> str:
    """Name a task by all that is known of it.

    >>> said_task("worker 1", "backup", "jobs.toml"), said_task("report 25", None, None)
    ('backup of jobs.toml (worker 1)', 'report 25')
    """
    of_source = f" of {source}" if source else ""
    return f"{name}{of_source} ({number})" if name else f"{number}{of_source}"


def show_attempts(attempts: Sequence[Attempt]) -> None:
    """Print a table of attempts."""
    table(
        "ATTEMPT",
        "STARTED",
        "ENDING",
        "EXIT",
        "NODE",
        "SECONDS",
        "PEAK MB",
        "CPU S",
        rows=[_attempt_row(attempt) for attempt in attempts],
        empty="It has not been started.",
    )


def _print_stream(name: str, stream: Captured) -> None:
    tell(f"--- {name}, {stream.bytes} bytes", style="bold")
    sys.stdout.write(printable_lines(stream.head).removesuffix("\n") + "\n")
    if stream.tail:
        tell("--- [what lies between was not kept]", style="bold")
        sys.stdout.write(printable_lines(stream.tail).removesuffix("\n") + "\n")


def _attempt_row(attempt: Attempt) -> tuple[object, ...]:
    ended = attempt.finished_at
    seconds = None if ended is None else f"{(ended - attempt.started_at).total_seconds():.2f}"
    exit_ = f"signal {attempt.signal}" if attempt.signal else attempt.exit_code
    peak = None if attempt.peak_memory is None else f"{attempt.peak_memory / 1e6:.1f}"
    cpu = None if attempt.cpu_seconds is None else f"{attempt.cpu_seconds:.2f}"
    ending = state(attempt.ending or "running")
    return (attempt.attempt, attempt.started_at, ending, exit_, attempt.node, seconds, peak, cpu)


def _waits(execution: Execution) -> bool:
    return execution.state in {State.CLAIMED, State.PUBLISHED, State.RETRYING}


def _short(text: str | None) -> str:
    line = (text or "").partition("\n")[0]
    return line if len(line) <= 60 else f"{line[:57]}..."  # noqa: PLR2004 - a table's column
