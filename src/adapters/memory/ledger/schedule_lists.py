"""Lists of schedules in memory."""

from collections.abc import Sequence
from datetime import datetime

from cronhare.ports.schedule_edits import ScheduleFilter
from cronhare.ports.schedule_lists import MOST_COUNTED
from cronhare.ports.schedules import StoredSchedule

from .schedule_edits import is_meant
from .schedule_table import ScheduleRow
from .schedules import stored
from .tables import MemoryLedger


class MemoryScheduleLists:
    """Satisfies `ScheduleListPort`. Each public method is one transaction."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._schedules = ledger.schedules

    def page(
        self, which: ScheduleFilter, *, after: str | None = None, limit: int, now: datetime
    ) -> Sequence[StoredSchedule]:
        with self._ledger.lock:
            rows = [row for row in self._by_name(which, now) if row.draft.name > (after or "")]
            return [stored(self._schedules, row) for row in rows[:limit]]

    def count(self, which: ScheduleFilter, *, now: datetime) -> int:
        with self._ledger.lock:
            return min(len(self._by_name(which, now)), MOST_COUNTED + 1)

    def _by_name(self, which: ScheduleFilter, now: datetime) -> list[ScheduleRow]:
        pauses = self._schedules.pauses
        meant = (row for row in self._users() if is_meant(row, pauses.get(row.id), which, now))
        return sorted(meant, key=lambda row: row.draft.name)

    def _users(self) -> list[ScheduleRow]:
        return [row for row in self._schedules.rows() if not row.draft.task.is_system]
