"""`cronhare next`: when a cron expression is due."""

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from cronhare.domain.cron import CronExpression, CronExpressionError, UnknownZone, find_zone

from .output import Json, print_json, table
from .trouble import Refusal


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
    count: Annotated[int, typer.Option(min=1, max=10_000, help="How many to show.")] = 5,
    json: Json = False,
) -> None:
    """Show the next due instants of a cron expression, and what the clock does around them."""
    zone = _zone(timezone)
    try:
        cron = CronExpression.parse(expression)
    except CronExpressionError as error:
        raise Refusal(f'"{expression}" is no cron expression', str(error).split("; ")) from error
    after = read_time(start, zone) if start else datetime.now(UTC)
    instants = list(islice(cron.upcoming(after, zone), count))
    if not instants:
        raise Refusal(f'"{expression}" never fires: {cron.why_never}')
    if json:
        print_json([_plain(instant, zone) for instant in instants])
        return
    rows = [
        (f"{instant:%Y-%m-%d %H:%M}Z", f"{instant.astimezone(zone):%a %Y-%m-%d %H:%M %Z (%z)}")
        for instant in instants
    ]
    table("UTC", timezone, rows=rows, empty="")


def read_time(text: str, zone: ZoneInfo) -> datetime:
    """Read an ISO date-time; without an offset it is wall time in *zone*.

    Raises:
        Refusal: it is none.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Refusal(f'"{text}" is no date-time; write 2026-03-28T00:00:00Z') from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)


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
