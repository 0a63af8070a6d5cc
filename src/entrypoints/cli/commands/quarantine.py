"""`cronhare quarantine list | show | release | discard`: what crashed too often, set apart."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.replay import ReplayOrder
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.texts.words import counted

from ...node_identity import this_actor
from ..bounds import MOST_LINES
from ..completion import FAILURES
from ..failure_options import (
    Note,
    OfSchedule,
    OfTask,
    Since,
    Until,
    WithReason,
    check_choice,
    failure_filter,
)
from ..failure_output import show_failure
from ..output import Json, print_json, print_line
from ..replay_options import DryRun, this_author
from ..replaying import RELEASE, replay_filtered, replay_named, show_discarded
from ..rows import Columns, print_rows
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.views.failures import FailureView
    from cronhare.domain.lifecycle.archive import FailureFilter

    from ...container import Container

Ids = Annotated[
    list[int] | None,
    typer.Argument(
        min=1, max=LARGEST_ID, help="Numbers from `quarantine list`.", autocompletion=FAILURES
    ),
]
All = Annotated[bool, typer.Option("--all", help="Everything that is quarantined.")]


def list_(
    *,
    schedule: OfSchedule = None,
    task: OfTask = None,
    reason: WithReason = None,
    since: Since = None,
    until: Until = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Those that were released or discarded, too.")
    ] = False,
    before: Annotated[
        int | None,
        typer.Option(min=1, max=LARGEST_ID, help="The next page: those before this number."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LINES, help="At most so many.")] = 100,
    json: Json = False,
) -> None:
    """List what is quarantined, newest first."""
    queries = open_ledger().queries()
    which = failure_filter(
        now=queries.now(),
        schedule=schedule,
        task=task,
        reason=reason,
        since=since,
        until=until,
        unresolved=not everything,
    )
    found = queries.quarantine(which, before=before, limit=limit)
    if json:
        print_json(found)
        return
    columns: Columns[FailureView] = {
        "ID": "id",
        "SCHEDULE": "schedule_name",
        "TASK": "called",
        "QUARANTINED AT": "failed_at",
        "CRASHES": "crash_count",
        "EXECUTION": "execution_id",
        **({"RESOLVED": "resolution"} if everything else {}),
        "REASON": lambda archived: archived.failed_reason.partition("\n")[0],
    }
    print_rows(
        found.quarantined,
        columns,
        json=False,
        empty="Nothing is quarantined.",
        spare=("TASK", "CRASHES"),
        elastic=("REASON",),
    )
    if len(found.quarantined) == limit:
        older = f"There may be older ones: --before {found.quarantined[-1].id}"
        print_line(older, style="bright_black")
    if found.messages:
        print_line(
            f"Queue {found.queue} has {counted(found.messages, 'message')}: one of each, and what "
            "no worker could read. Look at them with `rabbitmqadmin get`.",
            style="bright_black",
        )


def show(
    archived_id: Annotated[
        int,
        typer.Argument(
            min=1, max=LARGEST_ID, help="A number from `quarantine list`.", autocompletion=FAILURES
        ),
    ],
    *,
    json: Json = False,
) -> None:
    """Show one of them: its crashes, its attempts, its last output, and whose it is."""
    container = open_ledger()
    container.administrator().quarantined([archived_id])
    found = container.queries().failure(archived_id)
    if json:
        print_json(found)
        return
    show_failure(found)


def release(
    ids: Ids = None,
    *,
    schedule: OfSchedule = None,
    task: OfTask = None,
    reason: WithReason = None,
    since: Since = None,
    until: Until = None,
    everything: All = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Let them run again: back to their queues, with a fresh allowance of retries and crashes.

    Those of a filter, or --all, begin one by one in the background; `cronhare replays` shows them.
    """
    container = open_ledger()
    asked = {"schedule": schedule, "task": task, "reason": reason, "since": since, "until": until}
    which = _chosen(container, ids, asked, everything=everything)
    if which is None:
        replay_named(container, ids or [], RELEASE, dry_run=dry_run, json=json)
    else:
        order = ReplayOrder(which=which, author=this_author(None))
        replay_filtered(
            container, order, RELEASE, everything=everything, dry_run=dry_run, json=json
        )


def discard(
    ids: Ids = None,
    *,
    schedule: OfSchedule = None,
    task: OfTask = None,
    reason: WithReason = None,
    since: Since = None,
    until: Until = None,
    everything: All = False,
    note: Note = "",
    json: Json = False,
) -> None:
    """Resolve them without a run; they stay in the archive, with a note."""
    container = open_ledger()
    asked = {"schedule": schedule, "task": task, "reason": reason, "since": since, "until": until}
    which = _chosen(container, ids, asked, everything=everything)
    administrator, now = container.administrator(), container.ledger_time().now()
    if which is None:
        done = administrator.discard(ids or (), note=note, now=now, actor=this_actor())
    else:
        done = administrator.discard_all(which, note=note, now=now, actor=this_actor())
    show_discarded(done, RELEASE, everything=everything, json=json)


def _chosen(
    container: "Container",
    ids: list[int] | None,
    asked: Mapping[str, str | None],
    *,
    everything: bool,
) -> "FailureFilter | None":
    """Give the filter of what is meant, or None for the numbers, which are of the quarantine.

    Raises:
        Refusal: it is not said which, or in two ways.
        NotFound: a number is of something else.
    """
    has_filter = any(value is not None for value in asked.values())
    listed_by = "cronhare quarantine list"
    check_choice(ids, everything=everything, has_filter=has_filter, listed_by=listed_by)
    if ids:
        container.administrator().quarantined(ids)
        return None
    now = container.ledger_time().now()
    return attrs.evolve(failure_filter(now=now, **asked), kind=State.QUARANTINED)
