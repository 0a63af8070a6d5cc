"""Clocks that leapt ahead and were set right: what was noted meanwhile is of a time to come."""

from datetime import datetime, timedelta
from typing import Final

#: What the nodes' ideas of the ledger's time may differ by (ADR 12).
CLOCKS_DIFFER: Final = timedelta(seconds=5)


def was_ahead(noted_at: datetime, now: datetime) -> bool:
    """Tell whether something was noted by a clock that has been set back since."""
    return noted_at - now > CLOCKS_DIFFER


def has_passed(long: timedelta, since: datetime | None, now: datetime) -> bool:
    """Tell whether something was so long ago, or never, or in a time to come.

    >>> now, minute = datetime(2026, 3, 2, 12, 0), timedelta(minutes=1)
    >>> [has_passed(minute, now - each * minute, now) for each in (-1, 0, 0.5, 1)]
    [True, False, False, True]
    """
    return since is None or not timedelta(0) <= now - since < long
