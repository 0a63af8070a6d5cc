"""`cronhare failed list | show | replay | discard`: the archive of failures."""

import time
from typing import Annotated

import typer

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import EVERY_FAILURE, UNRESOLVED, FailureFilter
from cronhare.domain.messages import LARGEST_ID

from ..bounds import MOST_LINES
from ..completion import FAILURES
from ..errors import Refusal
from ..failure_options import (
    OfClass,
    OfKind,
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
from ..failure_output import failure_columns, failure_line, show_failure
from ..output import Json, print_json, print_line
from ..rows import print_rows
from ..times import none_since
from ..watched import Watch, print_changes
from ..wiring import open_ledger


def list_(
    *,
    schedule: OfSchedule = None,
    task: OfTask = None,
    type_: OfType = None,
    queue: OfQueue = None,
    reason: WithReason = None,
    error: OfClass = None,
    code: WithCode = None,
    kind: OfKind = None,
    since: Since = None,
    until: Until = None,
    everything: Annotated[bool, typer.Option("--all", help="The resolved ones, too.")] = False,
    before: Annotated[
        int | None,
        typer.Option(min=1, max=LARGEST_ID, help="The next page: those before this number."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LINES, help="At most so many.")] = 100,
    watch: Watch = False,
    json: Json = False,
) -> None:
    """List the archive, newest first; with --watch the newest last, until Ctrl-C.

    With --watch and --json each look at which something has changed is one line. With --watch and
    --all it is told as well when one is replayed or discarded.
    """
    if watch and before is not None:
        raise Refusal("--before: a page of older ones has nothing new to --watch")
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
    if watch:
        looks = queries.watch_failures(which, limit=limit, pause=time.sleep)
        print_changes(looks, failure_line, json=json)
        return
    found = queries.failures(which, before=before, limit=limit)
    columns = failure_columns(with_resolved=everything)
    print_rows(
        found,
        columns,
        json=json,
        empty=_nothing(which, before),
        spare=("KIND", "TASK", "ATTEMPTS"),
        elastic=("REASON",),
    )
    if len(found) == limit and not json:
        print_line(f"There may be older ones: --before {found[-1].id}", style="bright_black")


def show(
    archived_id: Annotated[
        int,
        typer.Argument(
            min=1, max=LARGEST_ID, help="A number from `failed list`.", autocompletion=FAILURES
        ),
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


def _nothing(which: FailureFilter, before: int | None) -> str:
    if before is None and which == EVERY_FAILURE:
        return "Nothing has failed for good."
    is_default = before is None and which == UNRESOLVED
    if is_default:
        return "No failure is unresolved."
    return none_since("No failure matches these options.", which.since, which.until)
