"""The time zones that an iCalendar file brings along (RFC 5545, 3.6.5): such as zones are.

Whoever asks one for its offset has its rules stepped through from their first year on, with no
chance to interrupt that: a daily one takes minutes, an hourly one all memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final

from cronhare.domain.texts.echo import echo

from .ics_bounds import IcsInvalid
from .ics_rules import YEARS_AFTER

#: Zones of a file, and the changes of their clocks in all years until those written out. Of
#: a zone from 1601 on, as those of Outlook are, there are some 900; 50,000 take a few seconds.
MOST_ZONES: Final = 100
MOST_CHANGES: Final = 50_000

#: The parts of a rule that changes clocks once a year, or some times, and how many values each has
#: at most. A week of days of the month stands beside a week day: the second Sunday is from 8 to 14.
_PARTS: Final = {
    name: 7 if name in {"BYMONTHDAY", "BYYEARDAY"} else 1
    for name in (
        "FREQ",
        "INTERVAL",
        "COUNT",
        "UNTIL",
        "WKST",
        *(f"BY{unit}" for unit in ("MONTH", "DAY", "MONTHDAY", "YEARDAY", "SETPOS")),
        *(f"BY{unit}" for unit in ("HOUR", "MINUTE", "SECOND")),
    )
}

_Parts = Mapping[str, Sequence[Any]]


def refuse_zones(calendar: Any, today: date) -> None:  # noqa: ANN401 - icalendar's
    """Refuse zones whose clocks change more often than those of places.

    Raises:
        IcsInvalid: with the zone, and what of it is refused.
    """
    zones = calendar.walk("VTIMEZONE")
    if len(zones) > MOST_ZONES:
        raise IcsInvalid(f"has {len(zones):,} time zones; {MOST_ZONES} are read")
    until, changes = today.year + YEARS_AFTER, 0
    for zone in zones:
        for since, rule in _rules_of(zone):
            if not _is_yearly(rule):
                raise IcsInvalid(
                    f"time zone {echo(str(zone.get('TZID')))}: an RRULE of it is refused: the "
                    "clocks of a zone change once a year, FREQ=YEARLY with BYMONTH and BYDAY"
                )
            changes += max(until - since, 1) * _times_a_year(rule)
    if changes > MOST_CHANGES:
        raise IcsInvalid(
            f"has time zones whose clocks change {changes:,} times until {until}; "
            f"{MOST_CHANGES:,} are followed: let their rules begin later than in the year 1"
        )


def _rules_of(zone: Any) -> Iterator[tuple[int, _Parts]]:  # noqa: ANN401
    """Give each rule with the year from which on it holds."""
    for each in zone.subcomponents:
        found = each.get("RRULE") or []
        since = getattr(getattr(each.get("DTSTART"), "dt", None), "year", 1)
        for rule in found if isinstance(found, list) else [found]:
            yield since, {str(name).upper(): list(values) for name, values in rule.items()}


def _is_yearly(rule: _Parts) -> bool:
    fits = all(len(values) <= _PARTS.get(name, 0) for name, values in rule.items())
    return fits and [str(each).upper() for each in rule.get("FREQ", ())] == ["YEARLY"]


def _times_a_year(rule: _Parts) -> int:
    """Say how often it may change the clocks in a year, at most."""
    months = 1 if "BYMONTH" in rule else 12
    days = [str(day) for day in rule.get("BYDAY", ())]
    if days and not any(character.isdigit() for character in days[0]):
        return 1 if "BYMONTHDAY" in rule and months == 1 else 5 * months
    if "BYMONTHDAY" in rule:
        return len(rule["BYMONTHDAY"]) * months
    return max(len(rule.get("BYYEARDAY", ())), 1)
