"""Calendars that schedules name and that are not there: such a schedule is never run."""

from collections.abc import Iterator, Sequence

import attrs

from ..texts.words import hint
from .draft import ScheduleDraft


@attrs.frozen
class CalendarFault:
    """A calendar that a schedule names in vain; *place* is a part of the jobs file."""

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


def calendars_of(draft: ScheduleDraft) -> frozenset[str]:
    """Give the calendars that a schedule names."""
    return frozenset(draft.conditions.calendars if draft.conditions else ())


def unknown_calendars(draft: ScheduleDraft, known: Sequence[str]) -> Iterator[CalendarFault]:
    """Find the calendars that a schedule names and that are none of *known*; not if it is off."""
    conditions = draft.conditions if draft.status else None
    if conditions is None:
        return
    for field, names in (("skip_on", conditions.skip_on), ("only_on", conditions.only_on)):
        for name in dict.fromkeys(names):
            if name not in known:
                problem = f"{field}: there is no calendar {name}; {hint(name, known)}"
                yield CalendarFault(f"schedules.{draft.name}", problem)


def removed_from(name: str, schedule: str, source: str | None) -> CalendarFault:
    """Say who still names a calendar that a jobs file has no more.

    >>> str(removed_from("closed", "payroll", "shop.toml"))
    'calendars.closed: would be removed, and is named by payroll of shop.toml, which is on'
    """
    whose = f"{schedule} of {source}" if source else f"{schedule}, a row by hand"
    problem = f"would be removed, and is named by {whose}, which is on"
    return CalendarFault(f"calendars.{name}", problem)
