"""`cronhare next`."""

from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from cronhare.application.administration.reading.schedules import preview
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
from cronhare.domain.texts.moments import DurationInvalid, parse_duration

from ..described import show_due
from ..errors import Refusal
from ..options import MOST_LINES
from ..output import Json, print_json, print_line
from ..times import read_time


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
