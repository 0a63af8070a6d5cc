"""`cronhare next`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final
from zoneinfo import ZoneInfo

import typer

from cronhare.application.administration.reading.schedules import preview
from cronhare.application.reports.clock_effects import EffectKind
from cronhare.domain.cron import (
    ClockChanges,
    CronExpression,
    CronExpressionError,
    Fold,
    Gap,
    UnknownZone,
    clock_changes,
    find_zone,
    names_matter,
)
from cronhare.domain.schedules.schedule import Every, Recurring, fault_of_period
from cronhare.domain.texts.moments import DurationInvalid, parse_duration, say_due

from ..errors import Refusal
from ..options import MOST_LINES
from ..output import Json, print_json, print_line, table
from ..times import read_time

if TYPE_CHECKING:
    from cronhare.application.administration.views.schedules import DueView


def next_due(
    expression: Annotated[
        str | None, typer.Argument(help="Cron text, in quotes.", show_default=False)
    ] = None,
    *,
    every: Annotated[
        str | None, typer.Option(help="An interval such as 30s, instead of cron text.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The schedule's name, of which each H makes its number.")
    ] = None,
    timezone: Annotated[str, typer.Option(help="The zone that its fields mean.")] = "UTC",
    gap: Annotated[
        Gap, typer.Option(help="What becomes of a time that a change of the clock leaps over.")
    ] = Gap.AFTER,
    fold: Annotated[
        Fold, typer.Option(help="Which pass counts of a time that comes twice.")
    ] = Fold.FIRST,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="Begin after this ISO date-time, in that zone; now by default."
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=MOST_LINES, help="How many to show.")] = 5,
    json: Json = False,
) -> None:
    """Show the next due instants of a cron expression, and what the clock does around them."""
    if (expression is None) == (every is None):
        raise Refusal("say when: cron text, or --every with an interval such as 30s")
    try:
        zone, now = find_zone(timezone), datetime.now(UTC)
    except UnknownZone as error:
        raise Refusal(str(error)) from error
    timing = (
        _interval(every)
        if every
        else _recurring(expression or "", name, zone, clock_changes(gap, fold))
    )
    after = read_time(start, zone, now=now) if start else now
    found = list(preview(timing, zone, after=after, count=count))
    if not found:
        why = timing.expression.why_never if isinstance(timing, Recurring) else "the calendar ends"
        raise Refusal(f'"{expression or every}" never fires: {why}')
    if json:
        print_json(found)
        return
    if isinstance(timing, Recurring) and name is not None:
        print_line(f"{timing.expression} is {timing.expression.plain} for {name}")
    show_due(found, timezone)


def _recurring(text: str, name: str | None, zone: ZoneInfo, changes: ClockChanges) -> Recurring:
    try:
        return Recurring(CronExpression.parse(text, name), zone, changes)
    except CronExpressionError as error:
        faults = [str(fault) for fault in error.faults]
        if name is None and names_matter(text):
            faults.append("name: say it with --name NAME")
        raise Refusal(f'"{text}" is no cron expression', faults) from error


def _interval(text: str) -> Every:
    try:
        period = parse_duration(text)
    except DurationInvalid as error:
        raise Refusal(f"--every: {error}") from error
    if (problem := fault_of_period(period)) is not None:
        raise Refusal(f"--every: {problem}")
    return Every(period)


#: In few words, for a line of 80 letters.
_SHORT: Final = {
    EffectKind.MOVED: "missing: moved",
    EffectKind.SKIPPED: "missing: skipped",
    EffectKind.FIRST_PASS: "twice: the first",
    EffectKind.SECOND_PASS: "twice: the second",
}


def show_due(found: Sequence["DueView"], timezone: str) -> None:
    """Print when they are, in UTC and in *timezone*, what the clock does, and which do not run."""
    headings, rows = ["UTC", timezone], []
    has_clock, has_skipped = any(each.clock for each in found), any(each.why_not for each in found)
    headings += ["CLOCK"] * has_clock + ["SKIPPED"] * has_skipped
    for each in found:
        seconds = ":%S" if each.local.second else ""
        local = each.local.strftime(f"%a %Y-%m-%d %H:%M{seconds} %Z (%z)")
        clock = ", ".join(f"{effect.meant[-5:]} {_SHORT[effect.kind]}" for effect in each.clock)
        row = [say_due(each.utc) if each.runs else "-", local]
        rows.append(row + [clock] * has_clock + [each.why_not or ""] * has_skipped)
    table(*headings, rows=rows, empty="")
