"""The days of a recurrence rule (RFC 5545, 3.3.10), by the clocks of its event."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from datetime import time as clock_time
from typing import Any, Final

from cronhare.domain.texts.echo import echo

from .ics_bounds import MOST_OCCURRENCES, IcsInvalid, OccurrenceCount

#: Years before and after this one for which recurring events are written out.
YEARS_BEFORE, YEARS_AFTER = 1, 10

_FREQUENCIES: Final = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")
_PARTS: Final = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYSETPOS"}) | {
    f"BY{unit}" for unit in ("DAY", "MONTH", "MONTHDAY", "YEARDAY", "WEEKNO")
}
_WEEKDAYS: Final = {
    day[:2].upper(): day for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
}
_WEEK: Final = timedelta(days=7)

Parts = Mapping[str, Sequence[Any]]


def read_rule(rule: Mapping[str, Any]) -> Parts:
    """Check what a rule consists of.

    Raises:
        IcsInvalid: it has something that is not read.
    """
    parts = {str(name).upper(): list(values) for name, values in rule.items()}
    if unknown := sorted(parts.keys() - _PARTS):
        raise IcsInvalid(f"its RRULE has {unknown[0][:20]}, which is not read")
    if [str(each).upper() for each in parts.get("FREQ", ())] not in [[f] for f in _FREQUENCIES]:
        raise IcsInvalid(f"its RRULE has none of FREQ={', '.join(_FREQUENCIES)}")
    if len(parts.get("UNTIL", ())) > 1:
        raise IcsInvalid("its RRULE has several UNTILs")
    for name in ("INTERVAL", "COUNT"):
        values = parts.get(name, [1])
        if len(values) != 1 or not 1 <= int(values[0]) <= MOST_OCCURRENCES:
            raise IcsInvalid(f"its RRULE has no {name} of 1-{MOST_OCCURRENCES:,}")
    return parts


def for_ever(parts: Parts, start: date, today: date) -> str | None:
    """Write single days that never end as a window that never ends, if one can say it.

    Such a window has no beginning: None if one of its days would lie between *today* and *start*.
    Of days gone by, for which only a backfill asks, it says what it says of those to come.
    """
    said = {name for name in parts if not (name == "INTERVAL" and parts[name] == [1])} - {"WKST"}
    frequency = str(parts["FREQ"][0]).upper()
    if frequency == "YEARLY" and said <= {"FREQ", "BYMONTH", "BYMONTHDAY"}:
        days = [int(each) for each in parts.get("BYMONTHDAY", [start.day])]
        months = [int(each) for each in parts.get("BYMONTH", [start.month])]
        is_to_come = start.replace(year=start.year - 1, day=min(start.day, 28)) < today
        is_on_its_day = (days, months) == ([start.day], [start.month])
        return f"{start:%m-%d}" if is_on_its_day and is_to_come else None
    if frequency == "WEEKLY" and said <= {"FREQ", "BYDAY"}:
        weekdays = [str(each).upper() for each in parts.get("BYDAY", [_weekday(start)])]
        is_to_come = start - today < _WEEK and not any(
            _weekday(start - timedelta(days=n)) in weekdays
            for n in range(1, (start - today).days + 1)
        )
        if is_to_come and all(day in _WEEKDAYS for day in weekdays):
            return ",".join(_WEEKDAYS[day] for day in weekdays)
    return None


def _weekday(day: date) -> str:
    return f"{day:%a}"[:2].upper()


def occurrences(
    parts: Parts, begin: datetime, home: tzinfo, today: date, looked_at: OccurrenceCount
) -> Iterator[datetime]:
    """Give when it recurs in the years around *today*, as *begin* by the clocks of *home*."""
    from dateutil.rrule import rrulestr  # noqa: PLC0415 - see `ics`

    text = ";".join(
        f"{name}={','.join(_part(name, each, home) for each in values)}"
        for name, values in parts.items()
    )
    first = datetime.combine(date(today.year - YEARS_BEFORE, 1, 1), clock_time())
    last = datetime.combine(date(today.year + YEARS_AFTER + 1, 1, 1), clock_time())
    found = None
    with looked_at.search.spending() as check:
        for found in rrulestr(text, dtstart=begin):
            check()
            looked_at.take()
            if found >= last:
                break
            if found >= first:
                yield found
    if found is None:
        raise IcsInvalid("its RRULE never comes to a day")


def _part(name: str, value: Any, home: tzinfo) -> str:  # noqa: ANN401 - icalendar's
    if name != "UNTIL":
        text = str(value)
        if not re.fullmatch(r"[+-]?[A-Za-z0-9]{1,12}", text):
            raise IcsInvalid(f"its RRULE has {echo(text)} for {name}")
        return text
    if isinstance(value, datetime):
        return f"{_at_home(value, home):%Y%m%dT%H%M%S}"
    return f"{value:%Y%m%d}T235959"


def _at_home(moment: datetime, home: tzinfo) -> datetime:
    if moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(home)
    except OverflowError:  # 99991231T235959Z, by which some say that it never ends
        return moment
