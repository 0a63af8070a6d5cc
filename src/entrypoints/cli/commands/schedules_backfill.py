"""`cronhare schedules backfill`: past due instants of a schedule run on request."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cronhare.domain.cron import find_zone
from cronhare.domain.lifecycle.replay import ReplayOrderInvalid
from cronhare.domain.texts.words import counted

from ...node_identity import this_actor
from ..completion import SCHEDULES
from ..output import Json, print_json, print_line
from ..progress import working
from ..replay_options import (
    Attempts,
    By,
    Canary,
    DryRun,
    Follow,
    GapJitter,
    Rate,
    StopAt,
    read_stop_at,
    refused_order,
    this_author,
)
from ..replay_output import tell_begun
from ..times import PAST, read_span
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.changing.replays import BackfillPreview

Name = Annotated[
    str, typer.Argument(help="The schedule's name.", show_default=False, autocompletion=SCHEDULES)
]

_OPTIONS: Final = {"since": "--since", "schedule": "NAME", "author": "--by"}


def backfill(
    name: Name,
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
    rate: Rate = None,
    jitter: GapJitter = None,
    at_once: Annotated[
        int | None, typer.Option(help="So many are under way at a time: 1 by default.")
    ] = None,
    canary: Canary = None,
    stop_at: StopAt = None,
    attempts: Attempts = None,
    by: By = None,
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
    rules: dict[str, float | None] = {
        "rate": rate,
        "jitter": jitter,
        "at_once": at_once,
        "canary": canary,
        "attempts": attempts,
    }
    given: dict[str, Any] = {key: value for key, value in rules.items() if value is not None}
    backfills = container.backfills()
    first, last = read_span(since, until, zone, now=now)
    assert first is not None
    assert last is not None
    given |= {"author": this_author(by), **read_stop_at(stop_at)}
    try:
        with working(f"Looking for what was due of {name}") as on_progress:
            order, found = backfills.look(
                name, since=first, until=last, now=now, on_progress=on_progress, **given
            )
    except ReplayOrderInvalid as error:
        raise refused_order("this backfill cannot be ordered", error, _OPTIONS) from error
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
