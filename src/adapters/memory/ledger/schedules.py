"""Schedules in memory."""

from bisect import bisect
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import attrs

from cronhare.domain.progress import OnProgress, passing, unwatched
from cronhare.domain.schedules.calendars import CalendarDraft
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.pause import Pause, paused_anew, resumed
from cronhare.ports.schedules import StoredCalendar, StoredSchedule

from .schedule_table import ScheduleRow, ScheduleTable
from .tables import MemoryLedger


class MemoryScheduleStore:
    """Satisfies `ScheduleStorePort`. Each public method is one transaction."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._schedules = ledger.schedules

    def schedules(self, names: Collection[str] | None = None) -> Sequence[StoredSchedule]:
        with self._ledger.lock:
            rows = self._users_rows(names)
            return tuple(map(self._stored, sorted(rows, key=lambda row: row.draft.name)))

    def near(self, name: str, *, limit: int) -> Collection[str]:
        with self._ledger.lock:
            names = sorted(row.draft.name for row in self._users_rows(None))
            place, half = bisect(names, name), limit // 2
            return names[max(place - half, 0) : place + half]

    def on_queues(self) -> Mapping[str, int]:
        with self._ledger.lock:
            return Counter(row.draft.runs_on for row in self._users_rows(None) if row.draft.status)

    def staying_alive(self, *, since: datetime | None = None) -> Collection[str]:
        with self._ledger.lock:
            rows = self._users_rows(None)
            edited = (row.draft for row in rows if since is None or row.updated_at > since)
            return [draft.name for draft in edited if draft.status and draft.stay_alive]

    def save(
        self,
        drafts: Sequence[ScheduleDraft],
        *,
        source: str | None,
        now: datetime,
        task_names: Mapping[str, str] | None = None,
        disabled: Collection[str] = (),
        calendars: Sequence[CalendarDraft] = (),
        dropped: Collection[str] = (),
        on_progress: OnProgress = unwatched,
    ) -> None:
        names = task_names or {}
        with self._ledger.lock:
            for draft in passing(drafts, on_progress):
                self._schedules.save(draft, source=source, now=now)
            for row in self._users_rows(names):
                self._schedules.name_task(row, names[row.draft.name])
            self._switch(disabled, on=False, now=now)
            for name in dropped:
                self._schedules.calendars.pop(name, None)
            for calendar in calendars:
                stored = StoredCalendar(name=calendar.name, source=source, draft=calendar)
                self._schedules.calendars[calendar.name] = stored

    def create(
        self, draft: ScheduleDraft, *, now: datetime, request: str | None = None
    ) -> int | None:
        with self._ledger.lock:
            if self._schedules.named(draft.name) is not None:
                return None
            self._schedules.save(draft, source=None, now=now)
            row = self._schedules.named(draft.name)
            if row is None:
                return None
            if request is not None:
                self._schedules.requests[row.id] = request
            return row.id

    def made_by(self, request: str | None, *, name: str) -> int | None:
        with self._ledger.lock:
            row = self._schedules.named(name)
            if row is None or row.source is not None:
                return None
            return row.id if self._schedules.requests.get(row.id) == request else None

    def with_id(self, scheduler_id: int) -> StoredSchedule | None:
        with self._ledger.lock:
            row = self._schedules.row(scheduler_id)
            return None if row is None or row.draft.task.is_system else self._stored(row)

    def switch(self, names: Collection[str], *, on: bool, now: datetime) -> Collection[str]:
        with self._ledger.lock:
            return self._switch(names, on=on, now=now)

    def calendars(self, names: Collection[str] | None = None) -> Sequence[StoredCalendar]:
        with self._ledger.lock:
            known = self._schedules.calendars
            return [known[name] for name in sorted(known) if names is None or name in names]

    def pause(self, name: str, pause: Pause, *, now: datetime) -> Pause | None:
        with self._ledger.lock:
            for row in self._users_rows([name]):
                pauses = self._schedules.pauses
                pauses[row.id] = paused_anew(pause, pauses.get(row.id), now=now)
                return pauses[row.id]
            return None

    def resume(self, name: str, *, now: datetime) -> Pause | None:
        with self._ledger.lock:
            for row in self._users_rows([name]):
                pauses = self._schedules.pauses
                if row.id in pauses:
                    pauses[row.id] = resumed(pauses[row.id], now=now)
                return pauses.get(row.id)
            return None

    def _switch(self, names: Collection[str], *, on: bool, now: datetime) -> Collection[str]:
        rows = [row for row in self._users_rows(names) if row.draft.status is not on]
        for row in rows:
            switched = attrs.evolve(row.draft, status=on)
            self._schedules.save(switched, source=row.source, now=now)
        return [row.draft.name for row in rows]

    def _users_rows(self, names: Collection[str] | None) -> list[ScheduleRow]:
        return [
            row
            for row in self._schedules.rows()
            if not row.draft.task.is_system and (names is None or row.draft.name in names)
        ]

    def _stored(self, row: ScheduleRow) -> StoredSchedule:
        return stored(self._schedules, row)


def stored(schedules: ScheduleTable, row: ScheduleRow) -> StoredSchedule:
    """Show a row with its plan."""
    cursor = schedules.cursor_of(row)
    return StoredSchedule(
        id=row.id,
        name=row.draft.name,
        draft=row.draft,
        problem=cursor.problem,
        source=row.source,
        created_at=row.created_at,
        updated_at=row.updated_at,
        next_due_at=cursor.next_due,
        planned=not schedules.is_edited(row),
        pause=schedules.pauses.get(row.id),
        claimed=schedules.claimed[row.id],
        idle=cursor.idle,
    )
