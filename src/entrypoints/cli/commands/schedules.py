"""`cronhare schedules pause | resume`."""

from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from cronhare.application.administration.views.schedules import PauseView, ScheduleView
from cronhare.domain.cron import find_zone

from ...node_identity import this_actor, this_user
from ..output import Json, print_json, print_line
from ..times import read_future
from ..wiring import open_ledger
from .schedules_show import pause_of
from .schedules_switch import Names


def pause(
    names: Names,
    *,
    reason: Annotated[str | None, typer.Option(help="Why: `explain` tells it.")] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="When it ends by itself: an ISO date-time, 18:00 (the next one), or 2h for in "
            "two hours. Without an offset it is in the schedule's zone."
        ),
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who says so; else who is logged in.")] = None,
    json: Json = False,
) -> None:
    """Let no due instant of schedules run until a time, or until `resume`.

    Each is recorded as skipped, with this reason. What was claimed before goes on, and
    `cronhare run` begins runs as ever. Pausing what is paused changes reason, author and end.
    """
    container = open_ledger()
    queries, now = container.queries(), container.ledger_time().now()
    found = {name: queries.schedule(name) for name in names}
    ends = {
        name: None if until is None else read_future(until, _zone_of(schedule), now=now)
        for name, schedule in found.items()
    }
    kept = container.administrator().pause(
        ends, reason=reason, by=by or this_user(), now=now, actor=this_actor()
    )
    if json:
        print_json({name: PauseView.of(each, now=now) for name, each in kept.items()})
        return
    for name, each in kept.items():
        print_line(f"{name} is {each}.")
        before = found[name].pause
        if before is not None and before.on:
            print_line(f"Until now: {pause_of(found[name])}.")
    if until is None:
        print_line(f"No end was said; then: cronhare schedules resume {' '.join(kept)}")


def resume(names: Names, *, json: Json = False) -> None:
    """End pauses. What was due meanwhile is not run: `cronhare schedules backfill` does that."""
    container = open_ledger()
    now = container.ledger_time().now()
    resumed = container.administrator().resume(names, now=now, actor=this_actor())
    if json:
        print_json(
            {name: each and PauseView.of(each, now=now) for name, (each, _) in resumed.items()}
        )
        return
    for name, (each, was_on) in resumed.items():
        if was_on:
            print_line(f"{name} goes on. What was due meanwhile does not run; it was {each}.")
        else:
            print_line(f"{name} was not paused.")


def _zone_of(schedule: ScheduleView) -> ZoneInfo:
    return find_zone(schedule.timezone or "UTC")
