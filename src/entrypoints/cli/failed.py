"""`cronhare failed list | show | replay | discard`: the archive of what failed for good."""

from datetime import timedelta
from typing import Annotated

import typer

from cronhare.domain.durations import DurationInvalid, parse_duration, say_duration
from cronhare.domain.listing import counted
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.replay import why_not_replayed
from cronhare.ports.records import Archived, RecordsPort

from ..container import Container
from .executions import said_task
from .output import MOST_LINES, Json, facts, print_json, state, table, tell
from .trouble import Refusal, Status
from .wiring import open_ledger

app = typer.Typer(
    help="What failed for good, and what becomes of it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

#: What --all takes at once.
MOST_AT_ONCE = 1_000

#: What lies between two of them, and what may at most.
SPREAD, LONGEST_SPREAD = timedelta(milliseconds=100), timedelta(hours=1)

Ids = Annotated[
    list[int] | None,
    typer.Argument(min=1, max=LARGEST_ID, help="Numbers from `failed list`."),
]
All = Annotated[bool, typer.Option("--all", help="Everything that is unresolved.")]


@app.command("list")
def list_(
    *,
    everything: Annotated[bool, typer.Option("--all", help="The resolved ones, too.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LINES, help="At most so many.")] = 100,
    json: Json = False,
) -> None:
    """List the archive, newest first."""
    found = open_ledger().records().archive(unresolved=not everything, limit=limit)
    if json:
        print_json(found)
        return
    table(
        "ID",
        "SCHEDULE",
        "TASK",
        "KIND",
        "FAILED AT",
        "ATTEMPTS",
        "EXECUTION",
        *(("RESOLVED",) if everything else ()),
        "REASON",
        rows=[
            (
                archived.id,
                archived.schedule_name,
                archived.task_name or f"{archived.task_type} {archived.task_id}",
                state(archived.kind),
                archived.failed_at,
                archived.attempts,
                archived.execution_id or None,
                *((archived.resolution,) if everything else ()),
                archived.failed_reason.partition("\n")[0],
            )
            for archived in found
        ],
        empty="Nothing has failed for good.",
    )


@app.command()
def show(
    archived_id: Annotated[
        int, typer.Argument(min=1, max=LARGEST_ID, help="A number from `failed list`.")
    ],
    *,
    json: Json = False,
) -> None:
    """Show one row of the archive."""
    [archived] = open_ledger().administrator().archived([archived_id])
    if json:
        print_json(archived)
        return
    facts(_facts(archived))


@app.command()
def replay(
    ids: Ids = None,
    *,
    everything: All = False,
    every: Annotated[
        str | None,
        typer.Option(
            help="One in so long, such as 2s; numbers begin at once by default, --all 10 a second."
        ),
    ] = None,
) -> None:
    """Run failed executions again, with a fresh retry allowance."""
    apart = _apart(every, everything=everything)
    container = open_ledger()
    chosen = _chosen(ids, container, everything=everything)
    now = container.claims().now()
    again = container.administrator().replay(chosen, now=now, apart=apart)
    numbers = ", ".join(str(execution.id) for execution in again)
    pace = f", one every {say_duration(apart)}" if apart and len(again) > 1 else ""
    said = f"Replaying {counted(len(again), 'execution')}{pace}" + (f": {numbers}" if again else "")
    left = [row for row in container.administrator().archived(chosen) if row.resolution is None]
    resolved = len(set(chosen)) - len(again) - len(left)
    tell(f"{said}; {resolved} resolved already." if resolved else f"{said}.")
    for archived in left:
        tell(f"{archived.id} cannot be replayed: {_why_not(archived, container.records())}.")
    if chosen and not again:
        raise typer.Exit(Status.WRONG_INPUT)


@app.command()
def discard(
    ids: Ids = None,
    *,
    everything: All = False,
    note: Annotated[str, typer.Option(help="Why, for whoever reads the archive.")] = "",
) -> None:
    """Resolve failures without a run; they stay in the archive."""
    container = open_ledger()
    chosen = _chosen(ids, container, everything=everything)
    now = container.claims().now()
    count = container.administrator().discard(chosen, note=note, now=now)
    resolved = len(set(chosen)) - count
    said = f"Discarded {counted(count, 'failure')}"
    tell(f"{said}; {resolved} resolved already." if resolved else f"{said}.")
    if chosen and not count:
        raise typer.Exit(Status.WRONG_INPUT)


def _apart(every: str | None, *, everything: bool) -> timedelta:
    """Spread what nobody has counted: all at once, it would overrun what has just recovered."""
    if every is None:
        return SPREAD if everything else timedelta(0)
    try:
        apart = parse_duration(every)
    except DurationInvalid as error:
        raise Refusal(f"--every: {error}") from error
    if apart > LONGEST_SPREAD:
        raise Refusal(f"--every: {every} is too long; at most {say_duration(LONGEST_SPREAD)}")
    return apart


def _chosen(ids: list[int] | None, container: Container, *, everything: bool) -> list[int]:
    if bool(ids) == everything:
        raise Refusal("say which: numbers from `cronhare failed list`, or --all")
    if ids:
        return ids
    return [archived.id for archived in container.records().archive(limit=MOST_AT_ONCE)]


def _why_not(archived: Archived, records: RecordsPort) -> str:
    if id_ := archived.execution_id:
        execution = records.execution(id_)
        if execution is None:
            return f"execution {id_} is no more in the ledger"
        # Nothing speaks against it where it has ended only now.
        return f"execution {id_}: {why_not_replayed(execution) or 'it was under way; try again'}"
    return (
        f"the ledger has no schedule {archived.scheduler_id}. Publish its task anew where it came "
        f"from, then: cronhare failed discard {archived.id}"
    )


def _task(archived: Archived) -> str:
    number = f"{archived.task_type} {archived.task_id}"
    return said_task(number, archived.task_name, archived.source)


def _facts(archived: Archived) -> list[tuple[str, object]]:
    return [
        ("failure", archived.id),
        ("execution", archived.execution_id or None),
        ("schedule", f"{archived.schedule_name} (id {archived.scheduler_id})"),
        ("task", _task(archived)),
        ("key", archived.execution_key),
        ("kind", state(archived.kind)),
        ("failed at", archived.failed_at),
        ("reason", archived.failed_reason),
        ("attempts", archived.attempts),
        ("params", archived.params),
        ("resolved", archived.resolved_at),
        ("resolution", archived.resolution),
        ("note", archived.note or None),
        ("error", archived.error),
    ]
