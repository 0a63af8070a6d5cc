"""What the ledger has to measure, as monitoring takes it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Self

import attrs

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.statistics import By, FailureCount, ScheduleResults
from cronhare.domain.nodes import NodeReport, present, serving
from cronhare.domain.retries.breaker import BreakerState
from cronhare.domain.texts.printable import printable
from cronhare.ports.records import QueueLoad, Unheard

from .limits import BreakerView, BudgetView

#: The most series of a metric, and characters of a label's value: each series costs whoever keeps
#: it for months.
MOST_SERIES: Final = 1_000
LONGEST_LABEL: Final = 255

#: The label of what has no series of its own.
OTHERS: Final = "(others)"

#: What waits for its first start, and is not held back.
_WAITS: Final = (State.CLAIMED, State.PUBLISHED)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Series = Mapping[tuple[str, ...], float]


@attrs.frozen(kw_only=True)
class MetricsView:
    """What is measured at one moment, by labels.

    *dead_letters* counts by queue and job what ever failed for good, as long as the archive has it;
    *depth* what of it is unresolved, and *unresolved* that by its kind. *unfinished* counts
    executions by queue and state, *unheard* events by topic that were completed though nobody
    listened. *oldest_waiting* is in seconds, *last_successes* and *last_failures* since 1970.
    """

    measured_at: datetime = _EPOCH
    dead_letters: Series
    depth: int
    unfinished: Series
    unheard: Series
    oldest_waiting: Series = attrs.field(factory=dict[tuple[str, ...], float])
    unresolved: Series = attrs.field(factory=dict[tuple[str, ...], float])
    nodes: Series = attrs.field(factory=dict[tuple[str, ...], float])
    queue_workers: Series = attrs.field(factory=dict[tuple[str, ...], float])
    budget_limits: Series = attrs.field(factory=dict[tuple[str, ...], float])
    budgets_left: Series = attrs.field(factory=dict[tuple[str, ...], float])
    breakers_open: Series = attrs.field(factory=dict[tuple[str, ...], float])
    last_successes: Series = attrs.field(factory=dict[tuple[str, ...], float])
    last_failures: Series = attrs.field(factory=dict[tuple[str, ...], float])
    rows: Series = attrs.field(factory=dict[tuple[str, ...], float])
    schedules_left_out: int = 0

    @classmethod
    def of(
        cls,
        failures: Sequence[FailureCount],
        *,
        total: int,
        depth: int,
        loads: Sequence[QueueLoad],
        unheard: Sequence[Unheard] = (),
    ) -> Self:
        """Bound what was counted; of a *total* of failures the largest groups are given."""
        jobs = Counter[tuple[str, ...]]()
        for each in failures:
            jobs[_label(each.group[By.QUEUE]), _label(each.group[By.TASK])] += each.failures
        if (rest := total - jobs.total()) > 0:
            jobs[OTHERS, OTHERS] += rest
        unfinished = Counter[tuple[str, ...]]()
        for load in sorted(loads, key=lambda one: -one.executions):
            place = (_label(load.queue), State(load.state).value)
            known = place in unfinished or len(unfinished) < MOST_SERIES
            unfinished[place if known else (OTHERS, place[1])] += load.executions
        topics = Counter[tuple[str, ...]]()
        for event in unheard:
            topics[(_label(event.topic),)] += event.count
        return cls(dead_letters=jobs, depth=depth, unfinished=unfinished, unheard=topics)

    def waiting_at(self, now: datetime, loads: Iterable[QueueLoad]) -> Self:
        """Add for how long the oldest of each queue has been waiting."""
        waits = dict[tuple[str, ...], float]()
        for load in loads:
            if load.state in _WAITS and load.oldest_due_at is not None:
                label = (_label(load.queue),)
                seconds = max((now - load.oldest_due_at).total_seconds(), 0.0)
                waits[label] = max(waits.get(label, 0.0), seconds)
        return attrs.evolve(self, measured_at=now, oldest_waiting=_bounded(waits))

    def with_nodes(
        self, reports: Sequence[NodeReport], queues: Iterable[str], now: datetime
    ) -> Self:
        """Add who reports, who is silent, and how many serve each of the *queues* and theirs."""
        there = present(reports, now)
        nodes = Counter[tuple[str, ...]]()
        for report in reports:
            state = "alive" if report in there else "silent"
            nodes[_label(report.role), state] += 1
        workers = Counter[tuple[str, ...]]({(_label(queue),): 0 for queue in queues})
        for report in serving(there, now):
            workers.update((_label(queue),) for queue in report.queues)
        return attrs.evolve(self, nodes=_bounded(nodes), queue_workers=_bounded(workers))

    def with_limits(self, budgets: Iterable[BudgetView], breakers: Iterable[BreakerView]) -> Self:
        """Add what is left of budgets, and which breakers are open."""
        budgets = list(budgets)
        return attrs.evolve(
            self,
            budget_limits=_bounded({(_label(one.queue),): one.limit for one in budgets}),
            budgets_left=_bounded({(_label(one.queue),): one.remaining for one in budgets}),
            breakers_open=_bounded(
                {(_label(one.called),): one.state != BreakerState.CLOSED.value for one in breakers}
            ),
        )

    def with_results(self, found: ScheduleResults) -> Self:
        """Add how the runs of schedules last ended."""
        return attrs.evolve(
            self,
            last_successes={
                (_label(one.schedule),): _seconds(one.succeeded_at) for one in found.results
            },
            last_failures={
                (_label(one.schedule),): _seconds(one.failed_at) for one in found.results
            },
            schedules_left_out=found.unread,
        )


def _seconds(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()


def _bounded(series: Series) -> Series:
    """Leave out what is beyond the bound, smallest numbers first: no sum would be right."""
    if len(series) <= MOST_SERIES:
        return series
    return dict(sorted(series.items(), key=lambda one: -one[1])[:MOST_SERIES])


def _label(text: str) -> str:
    return printable(text[:LONGEST_LABEL], keep="")[:LONGEST_LABEL]
