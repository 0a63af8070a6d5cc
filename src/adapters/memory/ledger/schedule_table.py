"""The in-memory ledger's schedules, and the cursor of each."""

import heapq
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import count
from typing import Any

import attrs
import msgspec

from cronhare.domain.schedules.draft import ScheduleDraft, compile_schedule
from cronhare.domain.schedules.owner import OWNER_FIELDS
from cronhare.domain.schedules.pause import Pause
from cronhare.domain.schedules.planning import Cursor
from cronhare.domain.schedules.schedule import Schedule
from cronhare.ports.schedules import StoredCalendar


@attrs.frozen(kw_only=True)
class ScheduleRow:
    """A schedule as it was saved, and as it is understood."""

    draft: ScheduleDraft
    schedule: Schedule
    source: str | None
    created_at: datetime

    @property
    def id(self) -> int:
        """The schedule's id."""
        return self.schedule.id

    @property
    def updated_at(self) -> datetime:
        """When the row was last written."""
        return self.schedule.changed_at


class ScheduleTable:
    """Schedules by id and by name, and the plan of each: its cursor, and which row it is of."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._rows: dict[int, ScheduleRow] = {}
        self._id_of: dict[str, int] = {}
        self._cursors: dict[int, Cursor] = {}
        self._planned_at: dict[int, datetime] = {}  # the `updated_at` of the row it was made from
        self._due_heap: list[tuple[datetime, int]] = []
        self.pauses: dict[int, Pause] = {}
        self.calendars: dict[str, StoredCalendar] = {}
        self.requests: dict[int, str] = {}  # the digests of what asked for them
        self.claimed: Counter[int] = Counter()  # runs that were due, where they are counted

    def rows(self) -> tuple[ScheduleRow, ...]:
        """List all schedules, by id."""
        return tuple(self._rows.values())

    def row(self, scheduler_id: int) -> ScheduleRow | None:
        """Find a schedule by its id."""
        return self._rows.get(scheduler_id)

    def named(self, name: str) -> ScheduleRow | None:
        """Find a schedule by its name."""
        return self._rows.get(self._id_of.get(name, 0))

    def cursor_of(self, row: ScheduleRow) -> Cursor:
        """Find a schedule's cursor; an empty one if it was never planned."""
        return self._cursors.get(row.id, Cursor())

    def save(self, draft: ScheduleDraft, *, source: str | None, now: datetime) -> None:
        """Write a row. An edit's `updated_at` is later than any before, so that it is planned."""
        before = self.named(draft.name)
        id_, created_at, changed_at = next(self._ids), now, now
        if before is not None:
            draft = attrs.evolve(draft, **_owner_of(draft, before.draft))
            id_, created_at = before.id, before.created_at
            changed_at = max(now, before.updated_at + datetime.resolution)
        self._id_of[draft.name] = id_
        self._rows[id_] = ScheduleRow(
            draft=draft,
            schedule=compile_schedule(draft, id=id_, changed_at=changed_at, source=source),
            source=source,
            created_at=created_at,
        )

    def replace(self, row: ScheduleRow, draft: ScheduleDraft, *, now: datetime) -> ScheduleRow:
        """Make a row say all that a draft does, nobody's numbers of an owner included."""
        changed_at = max(now, row.updated_at + datetime.resolution)
        new = compile_schedule(draft, id=row.id, changed_at=changed_at, source=row.source)
        self._rows[row.id] = attrs.evolve(row, draft=draft, schedule=new)
        return self._rows[row.id]

    def delete(self, row: ScheduleRow) -> None:
        """Delete a row, its plan and its pause."""
        del self._rows[row.id]
        self._id_of.pop(row.draft.name, None)
        self._cursors[row.id] = Cursor()  # what is left of it in the heap is stale
        self.pauses.pop(row.id, None)
        self.requests.pop(row.id, None)
        self.claimed.pop(row.id, None)

    def name_task(self, row: ScheduleRow, task_name: str) -> None:
        """Set the task that a row runs. This is no edit: its plan still holds."""
        self._rows[row.id] = attrs.evolve(
            row,
            draft=attrs.evolve(row.draft, task_name=task_name),
            schedule=msgspec.structs.replace(row.schedule, task_name=task_name),
        )

    def is_edited(self, row: ScheduleRow) -> bool:
        """Tell whether a row has no plan, or changed since it was planned."""
        return self._planned_at.get(row.id) != row.updated_at

    def set_plan(self, row: ScheduleRow, cursor: Cursor) -> None:
        """Move a schedule's cursor."""
        before = self.cursor_of(row).next_due
        self._cursors[row.id] = cursor
        self._planned_at[row.id] = row.updated_at
        if cursor.next_due is not None and cursor.next_due != before:
            heapq.heappush(self._due_heap, (cursor.next_due, row.id))

    def next_due(self, after: datetime | None = None) -> datetime | None:
        """Find the earliest due instant, or the earliest that is later than *after*."""
        while self._due_heap and self._is_stale(*self._due_heap[0]):
            heapq.heappop(self._due_heap)
        if after is None:
            return self._due_heap[0][0] if self._due_heap else None
        later = (due for due, id_ in self._due_heap if due > after and not self._is_stale(due, id_))
        return min(later, default=None)

    def due(self, now: datetime, since: datetime | None) -> Iterator[ScheduleRow]:
        """Yield the rows that are due, earliest first. A row stays due until it is planned."""
        entries = sorted(entry for entry in self._due_heap if entry[0] <= now)
        for due, id_ in dict.fromkeys(entries):
            if (since is None or due > since) and not self._is_stale(due, id_):
                yield self._rows[id_]

    def _is_stale(self, due: datetime, scheduler_id: int) -> bool:
        return self._cursors[scheduler_id].next_due != due


def _owner_of(draft: ScheduleDraft, before: ScheduleDraft) -> dict[str, Any]:
    """Give the owner's numbers: those that a draft does not say stay."""
    said = {name: getattr(draft, name) for name in OWNER_FIELDS}
    return {name: getattr(before, name) if new is None else new for name, new in said.items()}
