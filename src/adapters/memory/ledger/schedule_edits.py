"""Edits of schedules in memory, one by one, and which of them are meant."""

from datetime import datetime

from cronhare.domain.execution import UNFINISHED
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.pause import Pause
from cronhare.ports.schedule_edits import KeptByRuns, Outdated, ScheduleFilter
from cronhare.ports.schedules import StoredSchedule

from .schedule_table import ScheduleRow
from .schedules import stored
from .tables import MemoryLedger


class MemoryScheduleEdits:
    """Satisfies `ScheduleEditsPort`. Each public method is one transaction."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._schedules = ledger.schedules

    def edit(
        self, scheduler_id: int, draft: ScheduleDraft, *, seen: datetime | None, now: datetime
    ) -> StoredSchedule | Outdated | None:
        with self._ledger.lock:
            row = self._row(scheduler_id)
            if row is None:
                return None
            if seen not in {None, row.updated_at}:
                return Outdated(stored(self._schedules, row))
            return stored(self._schedules, self._schedules.replace(row, draft, now=now))

    def delete(
        self, scheduler_id: int, *, seen: datetime | None, with_history: bool = False
    ) -> StoredSchedule | Outdated | KeptByRuns | None:
        with self._ledger.lock:
            row = self._row(scheduler_id)
            if row is None:
                return None
            before = stored(self._schedules, row)
            if seen not in {None, row.updated_at}:
                return Outdated(before)
            newest = self._ledger.executions.newest_first()
            runs = [each for each in newest if each.scheduler_id == row.id]
            open_ = {
                each.execution_id
                for each in self._ledger.archive.values()
                if each.resolution is None
            }
            if kept := sum(
                not with_history or each.state in UNFINISHED or each.id in open_ for each in runs
            ):
                return KeptByRuns(kept)
            for each in runs:
                self._ledger.executions.delete(each)
            self._schedules.delete(row)
            return before

    def _row(self, scheduler_id: int) -> ScheduleRow | None:
        row = self._schedules.row(scheduler_id)
        return None if row is None or row.draft.task.is_system else row


def is_meant(row: ScheduleRow, pause: Pause | None, which: ScheduleFilter, now: datetime) -> bool:
    """Tell whether a filter takes a row."""
    texts = (row.draft.name, row.draft.description or "")
    is_paused = pause is not None and pause.is_on(now)
    return (
        (which.search is None or any(which.search.lower() in text.lower() for text in texts))
        and which.enabled in {None, row.draft.status}
        and which.paused in {None, is_paused}
        and which.source in {None, row.source}
    )
