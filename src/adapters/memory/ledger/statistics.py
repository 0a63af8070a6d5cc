"""Statistics in memory."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import msgspec

from cronhare.domain.execution import REPLAYABLE, Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.failure_filter import FailureFilter
from cronhare.domain.lifecycle.statistics import (
    By,
    ExecutionCount,
    FailureCount,
    Group,
    ScheduleResult,
    ScheduleResults,
    group_of_execution,
    group_of_failure,
    in_order,
)
from cronhare.domain.retries.outcome import ErrorClass

from .schedule_table import ScheduleRow
from .tables import MemoryLedger


class MemoryStatistics:
    """Satisfies `StatisticsPort`."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def failures(
        self, which: FailureFilter, *, by: Sequence[By], limit: int
    ) -> Sequence[FailureCount]:
        with self._ledger.lock:
            groups = defaultdict[tuple[str, ...], list[Archived]](list)
            for row in filter(which.takes, self._ledger.archive.values()):
                group = group_of_failure(row, by, _class_of(row.error))
                groups[tuple(group.values())].append(row)
        found = [_failures(dict(zip(by, key, strict=True)), rows) for key, rows in groups.items()]
        return sorted(found, key=in_order)[:limit]

    def executions(
        self, *, since: datetime, until: datetime | None, by: Sequence[By], limit: int
    ) -> Sequence[ExecutionCount]:
        with self._ledger.lock:
            groups = defaultdict[tuple[str, ...], list[Execution]](list)
            for row in self._ledger.executions.newest_first():
                is_asked = row.executed_at >= since and (until is None or row.executed_at < until)
                if is_asked and row.state is not State.SKIPPED and not row.task.is_system:
                    groups[tuple(group_of_execution(row, by).values())].append(row)
        found = [_executions(dict(zip(by, key, strict=True)), rows) for key, rows in groups.items()]
        return sorted(found, key=in_order)[:limit]

    def last_results(self, *, limit: int) -> ScheduleResults:
        with self._ledger.lock:
            again = sorted(filter(self._may_run_again, self._ledger.schedules.rows()), key=_id)
            results = [
                ScheduleResult(
                    schedule=row.schedule.name,
                    succeeded_at=self._last_end(row.id, [State.SUCCEEDED]),
                    failed_at=self._last_end(row.id, REPLAYABLE),
                )
                for row in again[:limit]
            ]
        return ScheduleResults(results=results, unread=len(again) - len(results))

    def rows(self) -> Mapping[str, int]:
        with self._ledger.lock:
            return {
                "executions": _span([each.id for each in self._ledger.executions.newest_first()]),
                "failures": _span(self._ledger.archive),
                "events": _span(self._ledger.outbox),
            }

    def _may_run_again(self, row: ScheduleRow) -> bool:
        if row.schedule.is_system:
            return False
        is_due = self._ledger.schedules.cursor_of(row).next_due is not None
        return is_due or (row.draft.status and not row.draft.has_times)

    def _last_end(self, scheduler_id: int, states: Collection[State]) -> datetime | None:
        ends = (
            each.finished_at
            for each in self._ledger.executions.newest_first()
            if each.scheduler_id == scheduler_id and each.state in states and each.finished_at
        )
        return max(ends, default=None)


def _id(row: ScheduleRow) -> int:
    return row.id


def _span(ids: Collection[int]) -> int:
    return max(ids) - min(ids) + 1 if ids else 0


def _class_of(error: str | None) -> str:
    if error is None:
        return ErrorClass.UNKNOWN.value
    return str(msgspec.json.decode(error).get("error_class", ErrorClass.UNKNOWN.value))


def _failures(group: Group, rows: Sequence[Archived]) -> FailureCount:
    return FailureCount(
        group=group,
        failures=len(rows),
        quarantined=sum(row.state is State.QUARANTINED for row in rows),
        unresolved=sum(row.resolution is None for row in rows),
        mean_retries=sum(row.retry_count for row in rows) / len(rows),
        first_at=min(row.failed_at for row in rows),
        last_at=max(row.failed_at for row in rows),
    )


def _executions(group: Group, rows: Sequence[Execution]) -> ExecutionCount:
    return ExecutionCount(
        group=group,
        total=len(rows),
        succeeded=sum(row.state is State.SUCCEEDED for row in rows),
        failed=sum(row.state in REPLAYABLE for row in rows),
        retried=sum(row.deaths > 0 for row in rows),
        mean_attempts=sum(row.attempt for row in rows) / len(rows),
    )
