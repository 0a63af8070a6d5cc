"""The calendar as plain numbers, the day fields of a cron text, and what the wall clock must show.

A search over dates is one over integers. A *day* counts from 1 January 1970, a *month number* is
year x 12 + month - 1, and a *shape* is all that the layout of a month depends on: its length and
the week day of its first. There are 28 shapes, so what is worked out for one serves four centuries.
"""

from calendar import monthrange
from datetime import date
from functools import lru_cache
from typing import Final, Protocol

import attrs

from .timeline import DAY

EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
LAST_MONTH: Final = date.max.year * 12 + 11
FIRST_MONTH: Final = date.min.year * 12


def shape_of(first: int, length: int) -> int:
    """Number the shape of a month; *first* is the week day of its first, Sunday is 0."""
    return (length - 28) * 7 + first


def first_of(shape: int) -> int:
    """The week day of the first; Sunday is 0."""
    return shape % 7


def length_of(shape: int) -> int:
    return 28 + shape // 7


@lru_cache(maxsize=4096)
def month_at(number: int) -> tuple[int, int]:
    """The first day of a month, and its shape."""
    year, month = divmod(number, 12)
    week_day, length = monthrange(year, month + 1)  # Monday is 0
    return date(year, month + 1, 1).toordinal() - EPOCH_DAY, shape_of((week_day + 1) % 7, length)


@lru_cache(maxsize=4096)
def civil(day: int) -> tuple[int, int, int, int]:
    """Where a day lies: month number, month from 0, day of month from 0, shape."""
    found = date.fromordinal(day + EPOCH_DAY)
    number = found.year * 12 + found.month - 1
    return number, found.month - 1, found.day - 1, month_at(number)[1]


SUNDAY: Final = 0
SATURDAY: Final = 6


class Extension(Protocol):
    """A day word."""

    def days(self, shape: int) -> int:
        """The mask of its days in a month of that shape; 0 if it has none there."""
        ...


@attrs.frozen
class LastDay:
    """`L`: the last day of the month."""

    def days(self, shape: int) -> int:
        return 1 << (length_of(shape) - 1)


@attrs.frozen
class LastWorkingDay:
    """`LW`: the last Monday to Friday of the month."""

    def days(self, shape: int) -> int:
        return NearestWorkingDay(length_of(shape)).days(shape)


@attrs.frozen
class NearestWorkingDay:
    """`nW`: the Monday to Friday nearest to day n, never in another month.

    A Saturday gives way to the Friday before, a Sunday to the Monday after; at the edge of the
    month it is the other way round. A month without a day n has none: `31W` is silent in April,
    as `31` is.
    """

    day: int

    def days(self, shape: int) -> int:
        length = length_of(shape)
        if self.day > length:
            return 0
        index = self.day - 1
        week_day = (first_of(shape) + index) % 7
        if week_day == SATURDAY:
            index += -1 if index > 0 else 2
        elif week_day == SUNDAY:
            index += 1 if index < length - 1 else -2
        return 1 << index


@attrs.frozen
class NthWeekDay:
    """`d#k`: the k-th such week day of the month; none where there is no fifth."""

    week_day: int
    nth: int

    def days(self, shape: int) -> int:
        index = (self.week_day - first_of(shape)) % 7 + 7 * (self.nth - 1)
        return 1 << index if index < length_of(shape) else 0


@attrs.frozen
class LastWeekDay:
    """`dL`: the last such week day of the month."""

    week_day: int

    def days(self, shape: int) -> int:
        last = length_of(shape) - 1
        return 1 << (last - (first_of(shape) + last - self.week_day) % 7)


_EVERY_WEEK = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28


@attrs.frozen(eq=False)
class DayRule:
    """The two day fields, compiled. Compared by identity, which makes it a cheap cache key.

    Bit 0 of *month_days* is day 1, bit 0 of *week_days* is Sunday. With *either* a day needs to
    satisfy one of the fields, otherwise both; an unrestricted field has all its bits set.
    """

    month_days: int
    week_days: int
    either: bool
    month_words: tuple[Extension, ...] = ()
    week_words: tuple[Extension, ...] = ()


@lru_cache(maxsize=16_384)
def days_of(rule: DayRule, shape: int) -> int:
    """The days of a month of that shape on which the rule holds; bit 0 is the first."""
    turned = (rule.week_days | rule.week_days << 7) >> first_of(shape) & 0x7F
    by_month = rule.month_days
    for word in rule.month_words:
        by_month |= word.days(shape)
    by_week = turned * _EVERY_WEEK
    for word in rule.week_words:
        by_week |= word.days(shape)
    days = by_month | by_week if rule.either else by_month & by_week
    return days & ((1 << length_of(shape)) - 1)


#: Each of the 14 kinds of year is among these, and each shape that a month may have.
_YEARS: Final = range(2000, 2028)


@lru_cache(maxsize=4096)
def fires(rule: DayRule, months: int) -> bool:
    """Whether any date of the 400 years after which the calendar repeats satisfies the rule."""
    return any(_fires_in(year, rule, months) for year in _YEARS)


def fires_every_year(rule: DayRule, months: int) -> bool:
    return all(_fires_in(year, rule, months) for year in _YEARS)


def _fires_in(year: int, rule: DayRule, months: int) -> bool:
    return any(
        months >> month & 1 and days_of(rule, month_at(year * 12 + month)[1]) for month in range(12)
    )


NEVER: Final = 1 << 62


def lowest(bits: int) -> int:
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
        hour, minute = divmod(time, 60)
        if self.hours >> hour & 1 and (minutes := self.minutes >> minute):
            return time + lowest(minutes)
        hour += 1
        return (hour + lowest(self.hours >> hour)) * 60 + lowest(self.minutes)

    def _last_time(self, time: int) -> int:
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
