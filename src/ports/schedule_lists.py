"""Lists of schedules for people, a part at a time: there may be a hundred thousand."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol

from .schedule_edits import ScheduleFilter
from .schedules import StoredSchedule

#: Nobody counts further: people are told that there are more.
MOST_COUNTED: Final = 10_000


class ScheduleListPort(Protocol):
    """Lists the users' schedules in parts. Every method may raise `LedgerUnavailable`.

    What tests/integration/test_schedule_lists_contract.py does not assert is not promised.
    """

    def page(
        self, which: ScheduleFilter, *, after: str | None = None, limit: int, now: datetime
    ) -> Sequence[StoredSchedule]:
        """List schedules by name; those without one, called `#` and their id, come last, by id.

        The next page is of those *after* the last name of this one, whether or not that is still
        there.
        """
        ...

    def count(self, which: ScheduleFilter, *, now: datetime) -> int:
        """Count the schedules that a filter takes; `MOST_COUNTED` + 1 if there are more."""
        ...
