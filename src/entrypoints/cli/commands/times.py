"""`cronhare next`: when a cron expression is due."""

from contextlib import suppress
from datetime import UTC, datetime, time
from itertools import islice
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from cronhare.domain.cron import CronExpression, CronExpressionError, UnknownZone, find_zone
from cronhare.domain.cron.timeline import FIRST_MINUTE, LAST_MINUTE, minute_of, moment_of
from cronhare.domain.texts.moments import say_minute

from ..errors import Refusal
from ..output import MOST_LINES, Json, print_json, table

_WRITE = "write 2026-03-28T08:00:00Z, or 08:00Z"

LONGEST_TIME = 64


def add_to(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("next")(next_times)


def next_times(
    expression: Annotated[str, typer.Argument(help="Cron text, in quotes.", show_default=False)],
    *,
    timezone: Annotated[str, typer.Option(help="The zone that its fields mean.")] = "UTC",
    start: Annotated[
        str | None, typer.Option("--from", help="Begin after this ISO date-time; now by default.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=MOST_LINES, help="How many to show.")] = 5,
    json: Json = False,
) -> None:
    """Show the next due instants of a cron expression, and what the clock does around them."""
    zone = _zone(timezone)
    try:
        cron = CronExpression.parse(expression)
    except CronExpressionError as error:
        raise Refusal(f'"{expression}" is no cron expression', str(error).split("; ")) from error
    now = datetime.now(UTC)
    after = read_time(start, zone, now=now) if start else now
    instants = list(islice(cron.upcoming(after, zone), count))
    if not instants:
        raise Refusal(f'"{expression}" never fires: {cron.why_never}')
    if json:
        print_json([_plain(instant, zone) for instant in instants])
        return
    rows = [
        (say_minute(instant), f"{instant.astimezone(zone):%a %Y-%m-%d %H:%M %Z (%z)}")
        for instant in instants
    ]
    table("UTC", timezone, rows=rows, empty="")


def read_time(text: str, zone: ZoneInfo, *, now: datetime) -> datetime:
    """Read an ISO date-time, or a time of the day that it is at *now*.

    Without an offset it is wall time in *zone*.

    >>> now = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
    >>> read_time("08:00", ZoneInfo("Europe/Berlin"), now=now).isoformat()
    '2026-03-29T06:00:00+00:00'
    >>> read_time("08:00Z", ZoneInfo("Europe/Berlin"), now=now).isoformat()
    '2026-03-28T08:00:00+00:00'

    Raises:
        Refusal: it is none.
    """
    if len(text) > LONGEST_TIME:  # of those, fromisoformat reads what it likes
        raise Refusal(f'"{text[:LONGEST_TIME]}…" is no time; {_WRITE}')
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = _today(text, zone, now)
    return _far_from_the_edge(text, moment if moment.tzinfo else moment.replace(tzinfo=zone))


def _far_from_the_edge(text: str, moment: datetime) -> datetime:
    """Refuse what no schedule can be due at, and some zone's calendar does not have."""
    first, last = moment_of(FIRST_MINUTE), moment_of(LAST_MINUTE)
    with suppress(OverflowError):
        instant = moment.astimezone(UTC)
        if FIRST_MINUTE <= minute_of(instant) <= LAST_MINUTE:
            return instant
    allowed = f"times are from {first.date()} to {last.date()}"
    raise Refusal(f'"{text}" is too close to the edge of the calendar; {allowed}')


def _today(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    try:
        wall = time.fromisoformat(text)
    except ValueError as error:
        raise Refusal(f'"{text}" is no time; {_WRITE}') from error
    return datetime.combine(now.astimezone(wall.tzinfo or zone), wall)


def _zone(name: str) -> ZoneInfo:
    try:
        return find_zone(name)
    except UnknownZone as error:
        raise Refusal(str(error)) from error


def _plain(instant: datetime, zone: ZoneInfo) -> dict[str, str]:
    return {
        "utc": instant.isoformat().replace("+00:00", "Z"),
        "local": instant.astimezone(zone).isoformat(),
    }
