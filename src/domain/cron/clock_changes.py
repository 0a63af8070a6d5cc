"""What a schedule says of the times that a change of the clock leaps over, or brings twice."""

import enum
from functools import cache
from typing import Final

import attrs


class Gap(enum.StrEnum):
    """What becomes of a fixed time that the clock leaps over."""

    AFTER = "after"  # it runs once, in the first minute after the leap
    SKIP = "skip"


class Fold(enum.StrEnum):
    """In which pass of a repeated hour a fixed time runs."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


@attrs.frozen
class ClockChanges:
    """What becomes of fixed times at changes of less than three hours; see `timeline`."""

    gap: Gap = Gap.AFTER
    fold: Fold = Fold.FIRST


#: As Debian's cron does. It is compared by identity where that must take no time.
AS_CRON: Final = ClockChanges()


@cache
def clock_changes(gap: Gap, fold: Fold) -> ClockChanges:
    """Give the one value that says both.

    >>> clock_changes(Gap.AFTER, Fold.FIRST) is AS_CRON
    True
    """
    changes = ClockChanges(gap, fold)
    return AS_CRON if changes == AS_CRON else changes
