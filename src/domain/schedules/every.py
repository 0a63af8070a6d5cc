"""Intervals: due every so many seconds, counted from 1970 in UTC, so that every replica agrees."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, overload

import attrs

from ..cron.timeline import EPOCH, FIRST_MINUTE, LAST_MINUTE, moment_of
from ..texts.moments import say_duration
from .keys import every_key

SECOND: Final = timedelta(seconds=1)

#: The shortest and the longest interval.
SHORTEST, LONGEST = SECOND, timedelta(days=366)

_FIRST, _LAST = moment_of(FIRST_MINUTE), moment_of(LAST_MINUTE)


def fault_of_period(period: timedelta) -> str | None:
    """Say why schedules cannot have an interval; None if they can.

    >>> fault_of_period(timedelta(milliseconds=1500))
    '1s500ms is no interval; whole seconds from 1s to 366d are'
    """
    if SHORTEST <= period <= LONGEST and not period % SECOND:
        return None
    allowed = f"whole seconds from {say_duration(SHORTEST)} to {say_duration(LONGEST)} are"
    return f"{say_duration(period)} is no interval; {allowed}"


class Ticks(Sequence[datetime]):
    """The instants of an interval, as a range: a week of seconds takes no more than one."""

    def __init__(self, seconds: range) -> None:
        """*seconds* since 1970."""
        self._seconds = seconds

    def __len__(self) -> int:
        return len(self._seconds)

    @overload
    def __getitem__(self, index: int) -> datetime: ...
    @overload
    def __getitem__(self, index: slice) -> "Ticks": ...
    def __getitem__(self, index: int | slice) -> "datetime | Ticks":
        if isinstance(index, slice):
            return Ticks(self._seconds[index])
        return EPOCH + timedelta(seconds=self._seconds[index])


@attrs.frozen
class Every:
    """Due whenever a whole number of periods has passed since 1970; clock changes are nothing."""

    period: timedelta

    def next(self, after: datetime) -> datetime | None:
        """Give the first due instant strictly after *after*, in UTC."""
        since = ((after - EPOCH) // self.period + 1) * self.period
        return EPOCH + since if since <= _LAST - EPOCH else None

    def previous(self, before: datetime) -> datetime | None:
        """Give the last due instant strictly before *before*, in UTC."""
        since = -((EPOCH - before) // self.period + 1) * self.period
        return EPOCH + since if since >= _FIRST - EPOCH else None

    def between(self, first: datetime, last: datetime) -> Ticks:
        """Give the due instants from *first* to *last*, both included."""
        step = self.period // SECOND
        begin, end = -((EPOCH - first) // self.period) * step, (last - EPOCH) // SECOND
        return Ticks(range(begin, end + 1, step))

    def key(self, due: datetime) -> str:
        """Give the execution key of a due instant."""
        return every_key(due)

    def __str__(self) -> str:
        """Write it as in a jobs file.

        >>> str(Every(timedelta(seconds=90)))
        'every 1m30s'
        """
        return f"every {say_duration(self.period)}"
