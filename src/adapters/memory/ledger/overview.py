"""What is looked at often, in memory."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from cronhare.domain.execution import Execution, State
from cronhare.ports.overview import Coming, Run

from .schedule_table import ScheduleRow
from .tables import MemoryLedger


class MemoryOverview:
    """Satisfies `OverviewPort`."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def recent(self, scheduler_ids: Collection[int], *, each: int) -> Mapping[int, Sequence[Run]]:
        found = defaultdict[int, list[Execution]](list)
        with self._ledger.lock:
            for row in self._ledger.executions.newest_first():
                if row.scheduler_id in scheduler_ids:
                    found[row.scheduler_id].append(row)
        return {
            id_: [_run(row) for row in sorted(rows, key=_in_order)[-each:]]
            for id_, rows in found.items()
        }

    def coming(self, since: datetime, until: datetime, *, limit: int) -> Sequence[Coming]:
        with self._ledger.lock:
            rows = [
                (due, row.id, row.draft.name)
                for due, row in self._due(since, until)
                if not row.draft.task.is_system
            ]
        return [Coming(name, due) for due, _, name in sorted(rows)[:limit]]

    def count_coming(self, since: datetime, until: datetime) -> Mapping[datetime, int]:
        with self._ledger.lock:
            return Counter(due for due, _ in self._due(since, until))

    def count_unplanned(self, *, most: int) -> int:
        schedules = self._ledger.schedules
        with self._ledger.lock:
            found = [
                row
                for row in schedules.rows()
                if row.draft.status and not row.draft.task.is_system and schedules.is_edited(row)
            ]
        return min(most, len(found))

    def waiting(self, since: datetime, *, limit: int) -> Sequence[int]:
        with self._ledger.lock:
            rows = self._ledger.executions.in_states((State.CLAIMED, State.PUBLISHED))
            return [row.id for row in rows if row.due_at < since][:limit]

    def count(self, states: Collection[State], *, most: int) -> Mapping[State, int]:
        with self._ledger.lock:
            found = Counter(row.state for row in self._ledger.executions.in_states(states))
        return {state: min(most, found[state]) for state in states}

    def count_unresolved(self, *, most: int) -> int:
        with self._ledger.lock:
            rows = self._ledger.archive.values()
            return min(most, sum(row.resolution is None for row in rows))

    def count_alerts(self, *, most: int) -> int:
        with self._ledger.lock:
            rows = self._ledger.alerts.values()
            return min(most, sum(row.cleared_at is None for row in rows))

    def _due(self, since: datetime, until: datetime) -> Iterator[tuple[datetime, ScheduleRow]]:
        schedules = self._ledger.schedules
        for row in schedules.rows():
            due = schedules.cursor_of(row).next_due
            if due is not None and since <= due < until:
                yield due, row


def _in_order(row: Execution) -> tuple[bool, datetime, int]:
    return row.finished_at is None, row.finished_at or row.executed_at, row.id


def _run(row: Execution) -> Run:
    return Run(
        id=row.id,
        state=row.state,
        due_at=row.due_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        attempt=row.attempt,
    )
