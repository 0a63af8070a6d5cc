"""`cronhare replays list | show | stop | resume` and `cronhare schedules backfill`."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cronhare.domain.cron import find_zone
from cronhare.domain.lifecycle.orders import ReplayOrderInvalid, ReplayState
from cronhare.domain.texts.words import counted

from ...node_identity import this_actor
from ..completion import REPLAYS
from ..options import ScheduleName, number
from ..output import Columns, Json, print_json, print_line, print_rows, state
from ..progress import working
from ..replaying import (
    By,
    DryRun,
    Follow,
    refused_order,
    rules_given,
    show_replay,
    spread,
    tell_begun,
    this_author,
    watch_replay,
)
from ..times import PAST, read_span
from ..typed_values import Limit
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.changing.replays import BackfillPreview
    from cronhare.application.administration.views.failures import ReplayView


Id = Annotated[int, number("A number from `replays list`.", REPLAYS)]


def list_(*, limit: Limit = 20, json: Json = False) -> None:
    """List replays, newest first."""
    container = open_ledger()
    found = container.replays().list(limit=limit, now=container.ledger_time().now())
    columns: Columns[ReplayView] = {
        "ID": "id",
        "KIND": "kind",
        "STATE": lambda replay: state(replay.state),
        "ORDERED": "created_at",
        "WAITING": "waiting",
        "UNDER WAY": "released",
        "SUCCEEDED": "succeeded",
        "FAILED": "failed",
        "REASON": lambda replay: replay.reason or "",
    }
    print_rows(
        found,
        columns,
        json=json,
        empty="No replay of many and no backfill was ordered.",
        spare=("KIND",),
        elastic=("REASON",),
    )


def show(replay_id: Id, *, follow: Follow = False, json: Json = False) -> None:
    """Show one: what it is about, how far it has come, and what it waits for.

    With --follow there is a bar on a terminal, and the rest is told when it has ended.
    """
    container = open_ledger()
    if follow:
        watch_replay(container, replay_id, json=json)
    else:
        show_replay(
            container.replays().show(replay_id, now=container.ledger_time().now()), json=json
        )


def stop(replay_id: Id, *, by: By = None, json: Json = False) -> None:
    """Let no other begin; what has begun goes on."""
    container = open_ledger()
    now = container.ledger_time().now()
    replay = container.replays().stop(
        replay_id, author=this_author(by), now=now, actor=this_actor()
    )
    _say_if_over(replay, json=json)
    show_replay(replay, json=json)


def resume(replay_id: Id, *, json: Json = False) -> None:
    """Let a stopped one go on, to its end: its canary and --stop-at hold no more."""
    container = open_ledger()
    replay = container.replays().resume(
        replay_id, now=container.ledger_time().now(), actor=this_actor()
    )
    _say_if_over(replay, json=json)
    show_replay(replay, json=json)


def _say_if_over(replay: "ReplayView", *, json: bool) -> None:
    """Say that there was nothing to stop or resume."""
    if replay.state == ReplayState.DONE and not json:
        print_line(f"It is {replay.state} already: nothing was changed.")


_BACKFILL_OPTIONS: Final = {"since": "--since", "schedule": "NAME", "author": "--by"}


@spread
def backfill(
    rules: dict[str, Any],
    name: ScheduleName,
    *,
    since: Annotated[
        str,
        typer.Option("--since", help=f"From this time on: {PAST}."),
    ],
    until: Annotated[
        str,
        typer.Option(
            "--until", help="And before this one, which has passed, written the same way."
        ),
    ],
    at_once: Annotated[
        int | None, typer.Option(help="So many are under way at a time: 1 by default.")
    ] = None,
    dry_run: DryRun = False,
    follow: Follow = False,
    json: Json = False,
) -> None:
    """Run the past due instants of a schedule, in the background, oldest first.

    One that has a run is left out, one that was skipped runs. Without an offset times are in the
    schedule's zone. `cronhare replays` shows and stops it; with --follow it is watched at once.
    """
    container = open_ledger()
    now = container.ledger_time().now()
    zone = find_zone(container.queries().schedule(name).timezone or "UTC")
    backfills = container.backfills()
    first, last = read_span(since, until, zone, now=now)
    assert first is not None
    assert last is not None
    given = rules_given({**rules, "at_once": at_once})
    try:
        with working(f"Looking for what was due of {name}") as on_progress:
            order, found = backfills.look(
                name, since=first, until=last, now=now, on_progress=on_progress, **given
            )
    except ReplayOrderInvalid as error:
        raise refused_order("this backfill cannot be ordered", error, _BACKFILL_OPTIONS) from error
    said = _say_instants(found)
    if dry_run:
        print_json(found) if json else print_line(f"{said}; nothing was changed.")
        return
    ordered = backfills.order(order, now=now, actor=this_actor())
    pace = f"at most {order.rate:g} a second, {order.at_once} at a time"
    begun = [
        f"Backfill {ordered.id}: {said}.",
        f"They begin in the background, oldest first, {pace}.",
    ]
    tell_begun(container, ordered, begun, follow=follow, json=json)


def _say_instants(found: "BackfillPreview") -> str:
    said = f"{counted(found.instants, 'instant')} of {found.schedule}"
    if found.ran:
        said += f", {found.ran} of which have a run"
    if found.left_out:
        said += f", {found.left_out} left out by {', '.join(found.left_out_by)}"
    return said
