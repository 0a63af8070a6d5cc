"""Calendars, as people look at them."""

from collections.abc import Sequence
from typing import Self

import attrs

from cronhare.ports.schedules import ScheduleStorePort, StoredCalendar

from .lookup import NotFound


@attrs.frozen(kw_only=True)
class WindowView:
    """A window as its jobs file has it, and what people call it."""

    during: str
    label: str | None


@attrs.frozen(kw_only=True)
class CalendarView:
    """A calendar of the jobs file *source*. Of a broken one there is no more than its *problem*."""

    name: str
    source: str | None
    timezone: str | None
    windows: Sequence[WindowView]
    problem: str | None

    @classmethod
    def of(cls, stored: StoredCalendar) -> Self:
        """Show a calendar."""
        draft = stored.draft
        windows = () if draft is None else draft.windows
        return cls(
            name=stored.name,
            source=stored.source,
            timezone=None if draft is None else draft.timezone,
            windows=[WindowView(during=during, label=label) for during, label in windows],
            problem=stored.problem,
        )


@attrs.frozen
class Calendars:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`."""

    _schedules: ScheduleStorePort

    def list(self) -> Sequence[CalendarView]:
        """List calendars by name."""
        return [*map(CalendarView.of, self._schedules.calendars())]

    def show(self, name: str) -> CalendarView:
        """Show one.

        Raises:
            NotFound: there is none.
        """
        for stored in self._schedules.calendars([name]):
            return CalendarView.of(stored)
        raise NotFound(f"there is no calendar {name!r}")
