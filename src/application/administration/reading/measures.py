"""What monitoring and statistics are asked."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import EVERY_FAILURE, UNRESOLVED, FailureFilter
from cronhare.domain.nodes import MOST_REPORTS, NodeReport, present, serving
from cronhare.domain.retries.limits import BreakerState
from cronhare.domain.texts.printable import printable
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.records import QueueLoad, RecordsPort
from cronhare.ports.statistics import By, FailureCount, StatisticsPort

from ..changing.work import LimitDesk
from ..views.failures import ExecutionCountView, FailureCountView
from ..views.work import Measured, Series
from .lookup import Names

#: The most series of a metric, and characters of a label's value: each series costs whoever keeps
#: it for months.
MOST_SERIES: Final = 1_000
LONGEST_LABEL: Final = 255

#: The label of what has no series of its own.
OTHERS: Final = "(others)"

#: What waits for its first start, and is not held back.
_WAITS: Final = (State.CLAIMED, State.PUBLISHED)


@attrs.frozen(kw_only=True)
class Metrics:
    """Answers a question, and changes nothing.

    *now* is the ledger's clock. So many *schedules* have series of their own.
    """

    _statistics: StatisticsPort
    _records: RecordsPort
    _nodes: NodeStorePort
    _limits: LimitDesk
    _now: Callable[[], datetime]
    _schedules: int

    def measure(self) -> Measured:
        """Measure what `adapters/prometheus/catalogue.py` describes as the ledger's."""
        now, loads = self._now(), self._records.queues()
        jobs = self._statistics.failures(EVERY_FAILURE, by=(By.QUEUE, By.TASK), limit=MOST_SERIES)
        unresolved = self._unresolved()
        reports = self._nodes.nodes(now=now, limit=MOST_REPORTS).reports
        nodes, workers = at_work(reports, now, waited_for={load.queue for load in loads})
        budgets, breakers = self._limits.budgets(), self._limits.breakers()
        not_closed = {one.called: one.state != BreakerState.CLOSED.value for one in breakers}
        last = self._statistics.last_results(limit=self._schedules)
        ever = self._records.count_failures(EVERY_FAILURE)
        unheard = self._records.unheard(limit=MOST_SERIES)
        return {
            "cronhare_ledger_measured_timestamp_seconds": {(): now.timestamp()},
            "job_queue_dlq_jobs_total": dead_letters(jobs, total=ever),
            "job_queue_dlq_depth": {(): sum(unresolved.values())},
            "cronhare_executions_unfinished": unfinished(loads),
            "app_schedule_job_no_listener_total": _summed(
                (one.topic, one.count) for one in unheard
            ),
            "cronhare_oldest_waiting_seconds": _oldest_waiting(loads, now),
            "cronhare_failures_unresolved": unresolved,
            "cronhare_nodes": nodes,
            "cronhare_queue_workers": workers,
            "cronhare_retry_budget_limit": _labelled({one.queue: one.limit for one in budgets}),
            "cronhare_retry_budget_remaining": _labelled(
                {one.queue: one.remaining for one in budgets}
            ),
            "cronhare_breaker_open": _labelled(not_closed),
            "cronhare_schedule_last_success_timestamp_seconds": _labelled(
                {one.schedule: _seconds(one.succeeded_at) for one in last.results}
            ),
            "cronhare_schedule_last_failure_timestamp_seconds": _labelled(
                {one.schedule: _seconds(one.failed_at) for one in last.results}
            ),
            "cronhare_schedules_without_series": {(): last.unread},
            "cronhare_ledger_rows": _labelled(self._statistics.rows()),
        }

    def _unresolved(self) -> Series:
        found = self._statistics.failures(UNRESOLVED, by=(By.TYPE,), limit=MOST_SERIES)
        quarantined = sum(each.quarantined for each in found)
        failed = self._records.count_failures(UNRESOLVED) - quarantined
        return {(State.FAILED.value,): failed, (State.QUARANTINED.value,): quarantined}


def dead_letters(failures: Iterable[FailureCount], *, total: int) -> Series:
    """Count by queue and job; of a *total* the largest groups are given."""
    jobs = Counter[tuple[str, ...]]()
    for each in failures:
        jobs[_label(each.group[By.QUEUE]), _label(each.group[By.TASK])] += each.failures
    if (rest := total - jobs.total()) > 0:
        jobs[OTHERS, OTHERS] += rest
    return jobs


def unfinished(loads: Iterable[QueueLoad]) -> Series:
    found = Counter[tuple[str, ...]]()
    for load in sorted(loads, key=lambda one: -one.executions):
        place = (_label(load.queue), State(load.state).value)
        known = place in found or len(found) < MOST_SERIES
        found[place if known else (OTHERS, place[1])] += load.executions
    return found


def _oldest_waiting(loads: Iterable[QueueLoad], now: datetime) -> Series:
    waits = dict[tuple[str, ...], float]()
    for load in loads:
        if load.state in _WAITS and load.oldest_due_at is not None:
            label = (_label(load.queue),)
            waited = max((now - load.oldest_due_at).total_seconds(), 0.0)
            waits[label] = max(waits.get(label, 0.0), waited)
    return _bounded(waits)


def at_work(
    reports: Sequence[NodeReport], now: datetime, *, waited_for: Iterable[str]
) -> tuple[Series, Series]:
    """Count who reports and who is silent, and how many serve each queue."""
    there = present(reports, now)
    nodes = Counter[tuple[str, ...]](
        (_label(report.role), "alive" if report in there else "silent") for report in reports
    )
    workers = Counter[tuple[str, ...]]({(_label(queue),): 0 for queue in waited_for})
    for report in serving(there, now):
        workers.update((_label(queue),) for queue in report.queues)
    return _bounded(nodes), _bounded(workers)


def _summed(found: Iterable[tuple[str, int]]) -> Series:
    sums = Counter[tuple[str, ...]]()
    for name, count in found:
        sums[_label(name),] += count
    return sums


def _labelled(found: Mapping[str, float]) -> Series:
    return {(_label(name),): value for name, value in found.items()}


def _seconds(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()


def _bounded(series: Series) -> Series:
    """Leave out what is beyond the bound, smallest numbers first: no sum would be right."""
    if len(series) <= MOST_SERIES:
        return series
    return dict(sorted(series.items(), key=lambda one: -one[1])[:MOST_SERIES])


def _label(text: str) -> str:
    return printable(text[:LONGEST_LABEL], keep="")[:LONGEST_LABEL]


@attrs.frozen
class Statistics:
    """Answers questions, and changes nothing."""

    _statistics: StatisticsPort
    _names: Names

    def failures(
        self, which: FailureFilter, *, by: Sequence[By], limit: int
    ) -> Sequence[FailureCountView]:
        found = self._statistics.failures(self._names.resolved(which), by=by, limit=limit)
        if not found:
            self._names.refuse_unknown(which)
        return [FailureCountView.of(each) for each in found]

    def executions(
        self, *, since: datetime, until: datetime | None, by: Sequence[By], limit: int
    ) -> Sequence[ExecutionCountView]:
        found = self._statistics.executions(since=since, until=until, by=by, limit=limit)
        return [ExecutionCountView.of(each) for each in found]
