"""`cronhare failed list | show | replay | discard`: the archive of failures."""

from datetime import timedelta
from typing import Annotated

import typer

from cronhare.application.administration.commands import TooFarApart
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.failure_filter import EVERY_FAILURE, UNRESOLVED, FailureFilter
from cronhare.domain.messages.messages import LARGEST_ID
from cronhare.domain.texts.durations import DurationInvalid, parse_duration, say_duration
from cronhare.domain.texts.listing import counted

from ..errors import Refusal, Status
from ..failure_options import (
    Kind,
    OfClass,
    OfQueue,
    OfSchedule,
    OfTask,
    OfType,
    Since,
    Until,
    WithCode,
    WithReason,
    failure_filter,
)
from ..failure_output import failure_columns, show_failure
from ..output import (
    MOST_LINES,
    Json,
    print_json,
    print_line,
    print_rows,
)
from ..wiring import open_ledger

app = typer.Typer(
    help="What failed for good, and what becomes of it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Ids = Annotated[
    list[int] | None,
    typer.Argument(min=1, max=LARGEST_ID, help="Numbers from `failed list`."),
]
All = Annotated[bool, typer.Option("--all", help="Everything that is unresolved.")]


@app.command("list")
def list_(
    *,
    schedule: OfSchedule = None,
    task: OfTask = None,
    type_: OfType = None,
    queue: OfQueue = None,
    reason: WithReason = None,
    error: OfClass = None,
    code: WithCode = None,
    kind: Annotated[Kind | None, typer.Option(help="Only those that ended so.")] = None,
    since: Since = None,
    until: Until = None,
    everything: Annotated[bool, typer.Option("--all", help="The resolved ones, too.")] = False,
    before: Annotated[
        int | None,
        typer.Option(min=1, max=LARGEST_ID, help="The next page: those before this number."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LINES, help="At most so many.")] = 100,
    json: Json = False,
) -> None:
    """List the archive, newest first."""
    queries = open_ledger().queries()
    which = failure_filter(
        now=queries.now(),
        schedule=schedule,
        task=task,
        type=type_,
        queue=queue,
        reason=reason,
        error_class=error,
        code=code,
        kind=None if kind is None else State(kind),
        since=since,
        until=until,
        unresolved=not everything,
    )
    found = queries.failures(which, before=before, limit=limit)
    columns = failure_columns(with_resolved=everything)
    print_rows(found, columns, json=json, empty=_nothing(which, before))
    if len(found) == limit and not json:
        print_line(f"There may be older ones: --before {found[-1].id}", style="bright_black")


@app.command()
def show(
    archived_id: Annotated[
        int, typer.Argument(min=1, max=LARGEST_ID, help="A number from `failed list`.")
    ],
    *,
    json: Json = False,
) -> None:
    """Show one row of the archive: its attempts, its last output, and whose it is."""
    found = open_ledger().queries().failure(archived_id)
    if json:
        print_json(found)
        return
    show_failure(found)


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
    chosen, apart = _chosen(ids, everything=everything), _apart(every)
    container = open_ledger()
    try:
        done = container.administrator().replay(chosen, now=container.claims().now(), apart=apart)
    except TooFarApart as error:
        raise Refusal(f"--every: {error}") from error
    again = done.executions
    pace = f", one every {say_duration(done.apart)}" if done.apart and len(again) > 1 else ""
    numbers = f": {', '.join(map(str, again))}" if again else ""
    _print_done(
        f"Replaying {counted(len(again), 'execution')}{pace}{numbers}", done.resolved_before
    )
    for id_, reason in done.refused.items():
        print_line(f"{id_} cannot be replayed: {reason}.")
    if done.asked and not again:
        raise typer.Exit(Status.WRONG_INPUT)


@app.command()
def discard(
    ids: Ids = None,
    *,
    everything: All = False,
    note: Annotated[str, typer.Option(help="Why, for whoever reads the archive.")] = "",
) -> None:
    """Resolve failures without a run; they stay in the archive."""
    chosen = _chosen(ids, everything=everything)
    container = open_ledger()
    now = container.claims().now()
    done = container.administrator().discard(chosen, note=note, now=now)
    _print_done(f"Discarded {counted(done.failures, 'failure')}", done.resolved_before)
    if done.asked and not done.failures:
        raise typer.Exit(Status.WRONG_INPUT)


def _nothing(which: FailureFilter, before: int | None) -> str:
    is_everything = which in {UNRESOLVED, EVERY_FAILURE} and before is None
    return "Nothing has failed for good." if is_everything else "No failure is like that."


def _print_done(said: str, resolved_before: int) -> None:
    print_line(f"{said}; {resolved_before} resolved already." if resolved_before else f"{said}.")


def _apart(every: str | None) -> timedelta | None:
    try:
        return None if every is None else parse_duration(every)
    except DurationInvalid as error:
        raise Refusal(f"--every: {error}") from error


def _chosen(ids: list[int] | None, *, everything: bool) -> list[int] | None:
    """Give the numbers, or None for everything."""
    if bool(ids) == everything:
        raise Refusal("say which: numbers from `cronhare failed list`, or --all")
    return ids or None
