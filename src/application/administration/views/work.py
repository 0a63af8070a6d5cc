"""Queues, nodes, budgets, breakers and what monitoring reads, as people see them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Self

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import By, FailureCount, ScheduleResults
from cronhare.domain.nodes import NodeReport, NodeReports, NodeState, present, serving
from cronhare.domain.retries.limits import Breaker, BreakerState, Budget
from cronhare.domain.texts.printable import printable
from cronhare.domain.texts.words import called
from cronhare.ports.inspection import Fit, Thing
from cronhare.ports.records import QueueLoad, Unheard

from .values import same


@attrs.frozen(kw_only=True)
class QueueView:
    """A task queue: its schedules, what the ledger has for it, and what the broker says.

    *waiting* counts what has not begun, *retrying* what has begun before, *held* what is held back;
    *oldest_due_at* is the earliest of all. *messages* and *consumers* are None where the broker
    cannot be asked.
    """

    queue: str
    schedules: int
    waiting: int
    retrying: int
    held: int
    running: int
    oldest_due_at: datetime | None
    messages: int | None
    consumers: int | None

    @classmethod
    def of(
        cls, queue: str, *, schedules: int, loads: Sequence[QueueLoad], thing: Thing | None
    ) -> Self:
        """Show a queue of so many *schedules*; *thing* is what the broker has, if it was asked."""
        ours = [load for load in loads if load.queue == queue]
        counts = {load.state: load.executions for load in ours}
        due = [load.oldest_due_at for load in ours if load.state is not State.RUNNING]
        there = None if thing is None or thing.fit is Fit.MISSING else thing
        return cls(
            queue=queue,
            schedules=schedules,
            waiting=counts.get(State.CLAIMED, 0) + counts.get(State.PUBLISHED, 0),
            retrying=counts.get(State.RETRYING, 0),
            held=counts.get(State.HELD, 0),
            running=counts.get(State.RUNNING, 0),
            oldest_due_at=min(filter(None, due), default=None),
            messages=None if there is None else there.messages,
            consumers=None if there is None else there.consumers,
        )


@attrs.frozen(kw_only=True)
class NodeView:
    """A process that works on the ledger; see `NodeReport`.

    *silent*: it has not reported itself for `SILENT_AFTER`; it was killed, or is cut off. Likewise
    if it was seen as late as that. *runs_tasks* says that it can be drained.
    """

    name: str
    role: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    silent: bool
    state: NodeState
    runs_tasks: bool
    queues: tuple[str, ...]
    concurrency: int | None
    running: int | None
    clock_offset_seconds: float
    consuming: bool | None
    drain_asked_at: datetime | None
    consumed_at: datetime | None
    source: str | None
    digest: str | None

    @classmethod
    def of(cls, report: NodeReport, *, now: datetime) -> Self:
        new = {
            "silent": report.is_silent(now),
            "state": report.state(now),
            "clock_offset_seconds": report.clock_offset.total_seconds(),
        }
        return cls(**same(cls, report) | new)


@attrs.frozen(kw_only=True)
class LeftRunView:
    """A run of a *node* that is silent: it is taken for lost, and tried again, at *lease_until*."""

    node: str
    execution_id: int
    schedule_name: str
    attempt: int
    lease_until: datetime | None


@attrs.frozen(kw_only=True)
class NodesView:
    """The *nodes* that were seen last; *unread* others, and *broken* rows, are left out.

    *left_runs* are what those that are silent have not ended.
    """

    nodes: Sequence[NodeView]
    unread: int
    broken: int
    left_runs: Sequence[LeftRunView] = ()

    @classmethod
    def of(cls, found: NodeReports, *, now: datetime) -> Self:
        nodes = [NodeView.of(report, now=now) for report in found.reports]
        return cls(nodes=nodes, unread=found.unread, broken=found.broken)

    def with_runs(self, running: Iterable[Execution]) -> Self:
        """Show also what the silent ones have left, of what is *running*."""
        silent = {node.name for node in self.nodes if node.silent}
        left = [
            LeftRunView(
                node=one.owner,
                execution_id=one.id,
                schedule_name=one.schedule_name,
                attempt=one.attempt,
                lease_until=one.lease_until,
            )
            for one in running
            if one.owner in silent
        ]
        return attrs.evolve(self, left_runs=left)


@attrs.frozen(kw_only=True)
class BudgetView:
    """What is left of a queue's retry budget (S2.10 in docs/compatibility.md).

    *limit* retries are granted within any *window_seconds*, as whoever asked last has it;
    *remaining* of them can be granted now. *deferred_until* is the next free place where none can;
    *spent_since* is when retries began to be deferred, or to fail.
    """

    queue: str
    limit: int
    window_seconds: float
    remaining: int
    can_retry: bool
    deferred_until: datetime | None
    spent_since: datetime | None

    @classmethod
    def of(cls, budget: Budget, *, now: datetime) -> Self:
        budget = budget.as_of(now)
        remaining = budget.remaining(now)
        return cls(
            queue=budget.queue,
            limit=budget.most,
            window_seconds=budget.window.total_seconds(),
            remaining=remaining,
            can_retry=remaining > 0,
            deferred_until=None if remaining else budget.free_at(now),
            spent_since=budget.spent_since,
        )


@attrs.frozen(kw_only=True)
class BreakerView:
    """The circuit breaker of a task (S0.12).

    *failures* are those that a closed one counts in its window. An open one has *opened_at*, with
    how many attempts had *failed* and *succeeded* then, and *probe_at*, from when one retry may be
    its probe; *probe* is the execution that is.
    """

    task: str
    task_name: str | None
    state: str
    failures: int
    window_seconds: float
    opened_at: datetime | None
    failed: int | None
    succeeded: int | None
    probe_at: datetime | None
    probe: int | None
    last_at: datetime

    @property
    def called(self) -> str:
        """What people call its task."""
        return called(self.task, name=self.task_name)

    @classmethod
    def of(cls, breaker: Breaker, *, now: datetime) -> Self:
        state = breaker.state(now)
        new = {
            "task_name": breaker.name,
            "state": state.value,
            "failures": breaker.failing_since(now - breaker.window),
            "window_seconds": breaker.window.total_seconds(),
        }
        if state is BreakerState.CLOSED:
            new |= dict.fromkeys(("opened_at", "failed", "succeeded", "probe_at", "probe"))
        return cls(**same(cls, breaker) | new)


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
