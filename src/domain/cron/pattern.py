"""What the clock on the wall must show: masks for minute, hour and month, and a rule for days.

Wall minutes are counted as in `timeline`. A search never steps from minute to minute: it finds
the lowest or the highest bit that is left, of the hour, of the day, of the month.
"""

from typing import Final

import attrs

from .days import DayRule, days_of
from .months import FIRST_MONTH, LAST_MONTH, civil, month_at
from .timeline import DAY

NEVER: Final = 1 << 62


def lowest(bits: int) -> int:
    """The number of the lowest set bit.

    >>> lowest(0b1100)
    2
    """
    return (bits & -bits).bit_length() - 1


@attrs.frozen(eq=False)
class WallPattern:
    """The compiled fields. In each mask bit 0 is the least value of its field; none is empty."""

    minutes: int
    hours: int
    months: int
    days: DayRule
    opening: int = attrs.field(init=False)  # the first time of a day, in minutes
    closing: int = attrs.field(init=False)  # the last

    @opening.default
    def _opening(self) -> int:
        return lowest(self.hours) * 60 + lowest(self.minutes)

    @closing.default
    def _closing(self) -> int:
        return self.hours.bit_length() * 60 + self.minutes.bit_length() - 61

    def holds(self, wall: int) -> bool:
        """Whether the pattern matches that wall minute."""
        day, time = divmod(wall, DAY)
        if not (self.minutes >> time % 60 & 1 and self.hours >> time // 60 & 1):
            return False
        _, month, index, shape = civil(day)
        return bool(self.months >> month & 1 and days_of(self.days, shape) >> index & 1)

    def first(self, wall: int) -> int:
        """The first match at or after *wall*; NEVER if the calendar ends before."""
        day, time = divmod(wall, DAY)
        number, month, index, shape = civil(day)
        if self.months >> month & 1:
            days = days_of(self.days, shape) >> index
            if days & 1:
                if time <= self.opening:
                    return day * DAY + self.opening
                if time <= self.closing:
                    return day * DAY + self._first_time(time)
                days -= 1
            if days:
                return (day + lowest(days)) * DAY + self.opening
        return self._first_from_month(number + 1)

    def last(self, wall: int) -> int:
        """The last match at or before *wall*; -NEVER if the calendar begins after."""
        day, time = divmod(wall, DAY)
        number, month, index, shape = civil(day)
        if self.months >> month & 1:
            days = days_of(self.days, shape) & ((2 << index) - 1)
            if days >> index:
                if time >= self.closing:
                    return day * DAY + self.closing
                if time >= self.opening:
                    return day * DAY + self._last_time(time)
                days ^= 1 << index
            if days:
                return (day - index + days.bit_length() - 1) * DAY + self.closing
        return self._last_until_month(number - 1)

    def _first_time(self, time: int) -> int:
        """The first time at or after one that is not past closing."""
        hour, minute = divmod(time, 60)
        if self.hours >> hour & 1 and (minutes := self.minutes >> minute):
            return time + lowest(minutes)
        hour += 1
        return (hour + lowest(self.hours >> hour)) * 60 + lowest(self.minutes)

    def _last_time(self, time: int) -> int:
        """The last time at or before one that is not ahead of opening."""
        hour, minute = divmod(time, 60)
        if self.hours >> hour & 1 and (minutes := self.minutes & ((2 << minute) - 1)):
            return hour * 60 + minutes.bit_length() - 1
        hours = self.hours & ((1 << hour) - 1)
        return hours.bit_length() * 60 + self.minutes.bit_length() - 61

    def _first_from_month(self, number: int) -> int:
        while number <= LAST_MONTH:
            ahead = self.months >> number % 12
            if not ahead:
                number += 12 - number % 12
                continue
            number += lowest(ahead)
            first, shape = month_at(number)
            if days := days_of(self.days, shape):
                return (first + lowest(days)) * DAY + self.opening
            number += 1
        return NEVER

    def _last_until_month(self, number: int) -> int:
        while number >= FIRST_MONTH:
            behind = self.months & ((2 << number % 12) - 1)
            if not behind:
                number -= number % 12 + 1
                continue
            number += behind.bit_length() - 1 - number % 12
            first, shape = month_at(number)
            if days := days_of(self.days, shape):
                return (first + days.bit_length() - 1) * DAY + self.closing
            number -= 1
        return -NEVER
