"""`cronhare next`."""

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from cronhare.domain.cron import CronExpression, CronExpressionError, UnknownZone, find_zone
from cronhare.domain.texts.moments import say_minute

from ..errors import Refusal
from ..output import MOST_LINES, Json, print_json, table
from ..times import read_time


def next_due(
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
