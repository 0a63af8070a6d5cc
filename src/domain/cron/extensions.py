"""The day words beyond numbers: `L`, `LW` and `nW` (day of month), `d#k` and `dL` (week day).

Each knows its days in a month of a given shape, as a mask: bit 0 is the first of the month.
"""

from typing import Final, Protocol

import attrs

from .months import first_of, length_of

SUNDAY: Final = 0
SATURDAY: Final = 6


class Extension(Protocol):
    """A day word."""

    def days(self, shape: int) -> int:
        """The mask of its days in a month of that shape; 0 if it has none there."""
        ...


def _week_day(shape: int, index: int) -> int:
    return (first_of(shape) + index) % 7


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
        week_day = _week_day(shape, index)
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
        return 1 << (last - (_week_day(shape, last) - self.week_day) % 7)
