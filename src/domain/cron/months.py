"""The calendar as plain numbers, because a search over dates is one over integers.

A *day* counts from 1 January 1970, a *month number* is year x 12 + month - 1, and a *shape* is
all that the layout of a month depends on: its length and the week day of its first. There are 28
shapes, so what is worked out for one serves four centuries.
"""

from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from typing import Final

EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
LAST_MONTH: Final = date.max.year * 12 + 11
FIRST_MONTH: Final = date.min.year * 12

LENGTHS: Final = (
    (31,),
    (28, 29),
    (31,),
    (30,),
    (31,),
    (30,),
    (31,),
    (31,),
    (30,),
    (31,),
    (30,),
    (31,),
)
_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def shape_of(first: int, length: int) -> int:
    """Number the shape of a month; *first* is the week day of its first, Sunday is 0.

    >>> [(first_of(shape), length_of(shape)) for shape in (shape_of(0, 28), shape_of(6, 31))]
    [(0, 28), (6, 31)]
    """
    return (length - 28) * 7 + first


def first_of(shape: int) -> int:
    """The week day of the first; Sunday is 0."""
    return shape % 7


def length_of(shape: int) -> int:
    """The number of days."""
    return 28 + shape // 7


@lru_cache(maxsize=4096)
def month_at(number: int) -> tuple[int, int]:
    """The first day of a month, and its shape.

    >>> month_at(1970 * 12)
    (0, 25)
    """
    year, month = divmod(number, 12)
    first = date(year, month + 1, 1).toordinal() - EPOCH_DAY
    leap = month == 1 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return first, shape_of((first + 4) % 7, LENGTHS[month][-1 if leap else 0])


@lru_cache(maxsize=4096)
def civil(day: int) -> tuple[int, int, int, int]:
    """Where a day lies: month number, month from 0, day of month from 0, shape.

    >>> civil(31)
    (23641, 1, 0, 0)
    """
    found = date.fromordinal(day + EPOCH_DAY)
    number = found.year * 12 + found.month - 1
    return number, found.month - 1, found.day - 1, month_at(number)[1]


def shapes_of_month(month: int) -> Iterator[int]:
    """Every shape that a month (from 0) takes: over 400 years each length meets each week day."""
    for length in LENGTHS[month]:
        for first in range(7):
            yield shape_of(first, length)


def shapes_of_year(first: int, *, leap: bool) -> Iterator[int]:
    """The shapes of the twelve months of a year whose 1 January is the week day *first*."""
    for month, before in enumerate(_BEFORE):
        day = first + before + (leap and month > 1)
        yield shape_of(day % 7, LENGTHS[month][-1 if leap else 0])
