"""The in-memory ledger's schedules, and the cursor of each."""

import heapq
from collections.abc import Iterator
from datetime import datetime
from itertools import count

import attrs
import msgspec

from cronhare.domain.schedules.draft import ScheduleDraft, compile_schedule
from cronhare.domain.schedules.planning import Cursor
from cronhare.domain.schedules.schedule import Schedule


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


@attrs.frozen(kw_only=True)
class PlanRow:
    """A schedule's cursor, and the `updated_at` of the row that it was planned from."""

    next_due_at: datetime | None
    planned_at: datetime
    problem: str | None
    resume_at: datetime | None


class ScheduleTable:
    """Schedules by id and by name, and their plans in the order in which they are due."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._rows: dict[int, ScheduleRow] = {}
        self._id_of: dict[str, int] = {}
        self._plans: dict[int, PlanRow] = {}
        self._due_heap: list[tuple[datetime, int]] = []

    def rows(self) -> tuple[ScheduleRow, ...]:
        """List all schedules, by id."""
        return tuple(self._rows.values())

    def row(self, scheduler_id: int) -> ScheduleRow | None:
        """Find a schedule by its id."""
        return self._rows.get(scheduler_id)

    def named(self, name: str) -> ScheduleRow | None:
        """Find a schedule by its name."""
        return self._rows.get(self._id_of.get(name, 0))

    def plan_of(self, row: ScheduleRow) -> PlanRow | None:
        """Find a schedule's plan."""
        return self._plans.get(row.id)

    def save(self, draft: ScheduleDraft, *, source: str | None, now: datetime) -> None:
        """Write a row. Two edits at one instant are told apart, or the second went unnoticed."""
        before = self.named(draft.name)
        id_, created_at, changed_at = next(self._ids), now, now
        if before is not None:
            id_, created_at = before.id, before.created_at
            changed_at = max(now, before.updated_at + datetime.resolution)
        self._id_of[draft.name] = id_
        self._rows[id_] = ScheduleRow(
            draft=draft,
            schedule=compile_schedule(draft, id=id_, changed_at=changed_at, source=source),
            source=source,
            created_at=created_at,
        )

    def name_task(self, row: ScheduleRow, task_name: str) -> None:
        """Say which task of its source a row runs: no edit, so that its plan still holds."""
        self._rows[row.id] = attrs.evolve(
            row,
            draft=attrs.evolve(row.draft, task_name=task_name),
            schedule=msgspec.structs.replace(row.schedule, task_name=task_name),
        )

    def is_edited(self, row: ScheduleRow) -> bool:
        """Tell whether a row has no plan, or changed since it was planned."""
        plan = self._plans.get(row.id)
        return plan is None or plan.planned_at != row.updated_at

    def set_plan(self, row: ScheduleRow, cursor: Cursor) -> None:
        """Move a schedule's cursor."""
        before = self._plans.get(row.id)
        self._plans[row.id] = PlanRow(
            next_due_at=cursor.next_due,
            planned_at=row.updated_at,
            problem=cursor.problem,
            resume_at=cursor.resume_at,
        )
        if cursor.next_due is not None and (not before or before.next_due_at != cursor.next_due):
            heapq.heappush(self._due_heap, (cursor.next_due, row.id))

    def next_due(self, after: datetime | None = None) -> datetime | None:
        """Look at the earliest cursor, or at the earliest of those that are later than *after*."""
        while self._due_heap and self._is_stale(*self._due_heap[0]):
            heapq.heappop(self._due_heap)
        if after is None:
            return self._due_heap[0][0] if self._due_heap else None
        later = (due for due, id_ in self._due_heap if due > after and not self._is_stale(due, id_))
        return min(later, default=None)

    def due(self, now: datetime, since: datetime | None) -> Iterator[ScheduleRow]:
        """Walk through what is due, earliest first. What is not planned anew stays due."""
        entries = sorted(entry for entry in self._due_heap if entry[0] <= now)
        for due, id_ in dict.fromkeys(entries):
            if (since is None or due > since) and not self._is_stale(due, id_):
                yield self._rows[id_]

    def _is_stale(self, due: datetime, scheduler_id: int) -> bool:
        return self._plans[scheduler_id].next_due_at != due
