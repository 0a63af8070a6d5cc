"""Which days of a month a pair of day fields means."""

from functools import lru_cache

import attrs

from .extensions import Extension
from .months import first_of, length_of, shapes_of_month, shapes_of_year

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
    """The days of a month of that shape on which the rule holds; bit 0 is the first.

    >>> mondays = DayRule(month_days=2**31 - 1, week_days=0b10, either=False)
    >>> bin(days_of(mondays, shape=0))  # 28 days, the first is a Sunday
    '0b10000001000000100000010'
    """
    turned = (rule.week_days | rule.week_days << 7) >> first_of(shape) & 0x7F
    by_month = rule.month_days
    for word in rule.month_words:
        by_month |= word.days(shape)
    by_week = turned * _EVERY_WEEK
    for word in rule.week_words:
        by_week |= word.days(shape)
    days = by_month | by_week if rule.either else by_month & by_week
    return days & ((1 << length_of(shape)) - 1)


@lru_cache(maxsize=4096)
def fires(rule: DayRule, months: int) -> bool:
    """Whether any date of the 400 years after which the calendar repeats satisfies the rule."""
    return any(
        days_of(rule, shape)
        for month in range(12)
        if months >> month & 1
        for shape in shapes_of_month(month)
    )


def fires_every_year(rule: DayRule, months: int) -> bool:
    """Whether each of the 14 kinds of year has such a date."""
    return all(
        any(
            months >> month & 1 and days_of(rule, shape)
            for month, shape in enumerate(shapes_of_year(first, leap=leap))
        )
        for leap in (False, True)
        for first in range(7)
    )
