"""Queues, nodes, budgets, breakers and what monitoring reads, as people see them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Self, TypeAlias

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.nodes import NodeReport, NodeReports, NodeState
from cronhare.domain.retries.limits import Breaker, BreakerState, Budget
from cronhare.domain.texts.words import called
from cronhare.ports.inspection import Fit, Thing
from cronhare.ports.records import QueueLoad

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


#: Values of a metric by its labels, and all of one moment by the metric's name.
Series: TypeAlias = Mapping[tuple[str, ...], float]
Measured: TypeAlias = Mapping[str, Series]
