"""The ledgers under test, behind their ports, with hands to work them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from threading import Barrier
from typing import Any, TypeAlias, TypeVar

import attrs
import pytest
from sqlalchemy import URL, Engine

from cronhare.adapters.sql.access import SqlAccessStore, SqlAuditStore
from cronhare.adapters.sql.attempts import SqlAttemptStore
from cronhare.adapters.sql.claims.store import SqlClaimStore
from cronhare.adapters.sql.dialect import dialect_of, with_dialect
from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.enqueue import SqlEnqueueStore
from cronhare.adapters.sql.events.alerts import SqlAlertStore
from cronhare.adapters.sql.events.outbox import SqlEventStore
from cronhare.adapters.sql.gauges import SqlOverview
from cronhare.adapters.sql.limits import SqlLimitStore
from cronhare.adapters.sql.nodes import SqlNodeStore, SqlRedeliveryStore
from cronhare.adapters.sql.records.lists import SqlNames
from cronhare.adapters.sql.records.replays import SqlReplayStore
from cronhare.adapters.sql.records.statistics import SqlStatistics
from cronhare.adapters.sql.records.store import SqlRecords
from cronhare.adapters.sql.schedule_lists import SqlScheduleLists
from cronhare.adapters.sql.schedules import SqlScheduleStore
from cronhare.adapters.sql.tables.tables import metadata
from cronhare.application.administration.audit import AuditTrail
from cronhare.application.administration.changing.work import LimitDesk
from cronhare.application.administration.explain import Explanations
from cronhare.application.administration.reading.lookup import Names
from cronhare.domain.execution import Execution, Graces, State
from cronhare.domain.lifecycle.archive import UNRESOLVED, Archived
from cronhare.domain.lifecycle.orders import ReplayOrder
from cronhare.domain.lifecycle.retry_limits import CatchUp, RetryPolicies
from cronhare.domain.retries.limits import UNLIMITED, RetryLimits
from cronhare.domain.retries.outcome import Ending, Outcome, TaskError
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.retries.retry import Complete, Fail, Quarantine, RetryAfter, Verdict
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.planning import Plan, Planned, plan
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.attempts import (
    AttemptStorePort,
    Busy,
    Finish,
    NodeStorePort,
    Recorded,
    RedeliveryStorePort,
    StartAnswer,
    StartRequest,
)
from cronhare.ports.claims import (
    Advance,
    Batch,
    ClaimStorePort,
    EnqueuePort,
    ReplayStorePort,
)
from cronhare.ports.events import AlertStorePort, EventStorePort
from cronhare.ports.records import (
    AccessStorePort,
    AuditStorePort,
    ExecutionFilter,
    LimitStorePort,
    OverviewPort,
    RecordsPort,
)
from cronhare.ports.runner import AttemptResult
from cronhare.ports.schedules import (
    NamesPort,
    ScheduleListPort,
    ScheduleStorePort,
)
from cronhare.ports.statistics import StatisticsPort
from tests.frozen_clock import FrozenClock
from tests.memory_ledger import compiled_once, memory_engine
from tests.ports import NO_NACKS, ids_of

T = TypeVar("T")

#: What an operator has open beside the running system: gives the rows, and commits by itself.
Shell: TypeAlias = Callable[[str], list[tuple[Any, ...]]]

EVERY_MINUTE: dict[str, Any] = {"schedule": "* * * * *", "date_time": None}

#: For rules of the domain: what reads and writes the rows is tested on each database beside them.
ON_ONE = pytest.mark.parametrize("fresh_ledger", ["sqlite"], indirect=True)

#: A Monday noon, far from the system's own schedule at 3:00.
NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)

MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LEASE = timedelta(seconds=30)
GRACES = Graces()

TIMED_OUT = TaskError(message="the server did not answer", code="ETIMEDOUT")
SUCCESS = AttemptResult(outcome=Outcome(ending=Ending.SUCCEEDED, exit_code=0))
FAILURE = AttemptResult(outcome=Outcome(ending=Ending.FAILED, exit_code=1, error=TIMED_OUT))
CRASH = AttemptResult(
    outcome=Outcome(ending=Ending.CRASHED, signal=9, error=TaskError(message="killed"))
)
TIMEOUT = AttemptResult(outcome=Outcome(ending=Ending.TIMED_OUT, signal=15, error=TIMED_OUT))
LOSS = AttemptResult(
    outcome=Outcome(ending=Ending.LOST, error=TaskError(message="its worker vanished"))
)

IN_30_S = RetryAfter(timedelta(seconds=30), "retry 1/3: the server did not answer")
FOR_GOOD = Fail("the server did not answer")


def draft(name: str = "report", **changes: Any) -> ScheduleDraft:  # noqa: ANN401
    """Write a schedule that is due every minute, unless *changes* say otherwise."""
    every_minute = ScheduleDraft(name=name, task=TaskRef("report", 25), schedule="* * * * *")
    return attrs.evolve(every_minute, **changes)


def at_once(callers: int, call: Callable[[int], T]) -> list[T]:
    """Make the same call from many threads at one moment; give all answers."""
    barrier = Barrier(callers)

    def caller(number: int) -> T:
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(callers) as pool:
        return list(pool.map(caller, range(callers)))


class Ledger:
    """One ledger behind its ports, and what a test does with it again and again."""

    def __init__(self, clock: FrozenClock, engine: Engine) -> None:
        self.clock = clock
        self.claims: ClaimStorePort = SqlClaimStore(engine, clock)
        self.attempts: AttemptStorePort = SqlAttemptStore(engine, clock)
        self.schedules: ScheduleStorePort = SqlScheduleStore(engine, clock)
        self.lists: ScheduleListPort = SqlScheduleLists(engine, clock)
        self.edits = self.lists
        self.records: RecordsPort = SqlRecords(engine, clock)
        self.nodes: NodeStorePort = SqlNodeStore(engine, clock)
        self.names: NamesPort = SqlNames(engine, clock)
        self.events: EventStorePort = SqlEventStore(engine, clock)
        self.replays: ReplayStorePort = SqlReplayStore(engine, clock)
        self.limits: LimitStorePort = SqlLimitStore(engine, clock)
        self.statistics: StatisticsPort = SqlStatistics(engine, clock)
        self.timings = self.timeline = self.statistics
        self.overview: OverviewPort = SqlOverview(engine, clock)
        self.alerts: AlertStorePort = SqlAlertStore(engine, clock)
        self.redeliveries: RedeliveryStorePort = SqlRedeliveryStore(engine, clock)
        self.audit: AuditStorePort = SqlAuditStore(engine, clock)
        self.access: AccessStorePort = SqlAccessStore(engine, clock)
        self.enqueueing: EnqueuePort = SqlEnqueueStore(engine, clock)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @property
    def trail(self) -> AuditTrail:
        return AuditTrail(entries=self.audit, stopwatch=self.clock.monotonic, now=self.clock.now)

    @property
    def explanations(self) -> Explanations:
        return Explanations(
            schedules=self.schedules,
            records=self.records,
            nodes=self.nodes,
            replays=self.replays,
            limits=LimitDesk(limits=self.limits, trail=self.trail),
            policies=RetryPolicies(RetryPolicy()),
            names=self.asked,
            now=self.clock.now,
        )

    @property
    def asked(self) -> Names:
        """What filters name, by those who have no jobs file."""
        return Names(
            names=self.names,
            schedules=self.schedules,
            nodes=self.nodes,
            tasks=(),
            now=self.clock.now,
        )

    def planner(self, planned: Planned) -> Plan:
        return plan(planned, self.now)

    def save(self, *drafts: ScheduleDraft) -> None:
        self.schedules.save(drafts, source=None, now=self.now)

    def disable(self, *names: str) -> None:
        self.schedules.save([], source=None, now=self.now, disabled=names)

    def plan_edited(self) -> Batch:
        return self.claims.plan_edited(
            now=self.now, since=None, limit=1_000, node="ant", planner=self.planner
        )

    def add(self, name: str = "report", **changes: Any) -> int:  # noqa: ANN401
        self.save(draft(name, **changes))
        self.plan_edited()
        return ids_of(self.schedules, [name])[name]

    def claim_due(self, *, node: str = "ant", limit: int = 1_000, **bounds: Any) -> Batch:  # noqa: ANN401
        asked = {"planner": self.planner, **bounds}
        return self.claims.claim_due(now=self.now, limit=limit, node=node, **asked)

    def run_now(
        self, scheduler_id: int, key: str, *, params: str | None = None, node: str = "ant"
    ) -> Execution:
        return self.records.run_now(scheduler_id, key=key, params=params, now=self.now, node=node)

    def claimed(self, name: str = "report", **changes: Any) -> Execution:  # noqa: ANN401
        """Let a minute pass, and claim the run of a schedule that is due then, and only then."""
        self.add(name, **{"schedule": None, "date_time": self.now + MINUTE, **changes})
        self.clock.advance(MINUTE)
        (execution,) = (row for row in self.claim_due().claimed if row.schedule_name == name)
        return execution

    def systems_own(self) -> Execution:
        """Wait until the daily cleanup is due, and claim it; nothing else may be due before."""
        self.clock.advance((self.claims.next_due() or self.now) - self.now)
        [cleanup] = (row for row in self.claim_due().claimed if row.task.is_system)
        return cleanup

    def published(self, name: str = "report", **changes: Any) -> Execution:  # noqa: ANN401
        execution = self.claimed(name, **changes)
        self.claims.mark_published([execution], now=self.now)
        return self.seen(execution)

    def running(self, name: str = "report", *, node: str = "ant") -> Execution:
        return self.started(self.claimed(name), node=node)

    def start(self, execution: Execution, *, node: str = "ant") -> StartAnswer:
        (answer,) = self.start_all([execution], node=node)
        return answer

    def start_all(
        self, executions: Iterable[Execution], *, node: str = "ant", catch_up: CatchUp | None = None
    ) -> list[StartAnswer]:
        requests = [
            StartRequest(execution_id=one.id, attempt=one.attempt, nacks=NO_NACKS)
            for one in executions
        ]
        found = self.attempts.start(
            requests, now=self.now, node=node, lease=LEASE, catch_up=catch_up
        )
        return [*found]

    def started(self, execution: Execution, *, node: str = "ant") -> Execution:
        """Start the attempt that an execution waits for, when its time has come."""
        self.clock.advance(max((execution.next_attempt_at or self.now) - self.now, timedelta(0)))
        answer = self.start(execution, node=node)
        assert isinstance(answer, Execution), answer
        return answer

    def finish(
        self,
        execution: Execution,
        verdict: Verdict,
        ran: AttemptResult = FAILURE,
        *,
        node: str = "ant",
    ) -> Recorded | Busy:
        (answer,) = self.finish_all([execution], verdict, ran, node=node)
        return answer

    def finish_all(
        self,
        executions: Iterable[Execution],
        verdict: Verdict,
        ran: AttemptResult = FAILURE,
        *,
        node: str = "ant",
        limits: RetryLimits = UNLIMITED,
    ) -> list[Recorded | Busy]:
        finishes = [
            Finish(execution=one, ran=ran, verdict=verdict, limits=limits) for one in executions
        ]
        return [*self.attempts.finish(finishes, now=self.now, node=node)]

    def finished(
        self, execution: Execution, verdict: Verdict, ran: AttemptResult = FAILURE
    ) -> Execution:
        """Start and end an attempt, and give what became of the execution."""
        answer = self.finish(self.started(execution), verdict, ran)
        assert isinstance(answer, State), answer
        return self.seen(execution)

    def succeeded(self, execution: Execution) -> Execution:
        return self.finished(execution, Complete(), SUCCESS)

    def failed(
        self,
        name: str = "report",
        *,
        verdict: Fail | Quarantine = FOR_GOOD,
        error: TaskError = TIMED_OUT,
        **changes: Any,  # noqa: ANN401
    ) -> Archived:
        """Claim a run and let it fail for good; give its row in the archive."""
        ran = AttemptResult(outcome=Outcome(ending=Ending.FAILED, exit_code=1, error=error))
        execution = self.finished(self.claimed(name, **changes), verdict, ran)
        return next(r for r in self.records.archive() if r.execution_id == execution.id)

    def replayed(self, *, rate: float, **rules: Any) -> Sequence[Execution]:  # noqa: ANN401
        """Order a replay of all that is unresolved, and take its first step."""
        self.replays.order(ReplayOrder(which=UNRESOLVED, rate=rate, **rules), now=self.now)
        return self.advanced().executions

    def advanced(self) -> Advance:
        advance = self.advanced_or_not()
        assert advance is not None, "no replay is due"
        return advance

    def advanced_or_not(self) -> Advance | None:
        return self.replays.advance(
            now=self.now, node="ant", policy=RetryPolicy(), random_fraction=lambda: 0.0
        )

    def overdue(self, *, limit: int = 1_000) -> list[int]:
        return [row.id for row in self.claims.overdue(now=self.now, graces=GRACES, limit=limit)]

    def lapsed(self) -> list[int]:
        return [row.id for row in self.claims.lapsed(now=self.now, limit=1_000)]

    def run_by(self, *nodes: str, limit: int = 1_000) -> list[int]:
        return [row.id for row in self.claims.run_by(nodes, limit=limit)]

    def seen(self, execution: Execution) -> Execution:
        found = self.records.execution(execution.id)
        assert found is not None
        return found

    def executions(self, *states: State) -> list[Execution]:
        """Read the executions of the users' schedules, oldest first."""
        rows = self.records.executions(ExecutionFilter(states=states, limit=100_000))
        return [row for row in reversed(rows) if not row.task.is_system]


sql_ledger = Ledger


def all_running(ledger: Ledger, how_many: int) -> list[Execution]:
    """Start so many executions of one queue at the same minute."""
    at = ledger.now + MINUTE
    ledger.save(*(draft(f"r-{n}", schedule=None, date_time=at) for n in range(how_many)))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)
    started = ledger.start_all(ledger.claim_due().claimed)
    return [one for one in started if isinstance(one, Execution)]


def memory_ledger(clock: FrozenClock) -> Ledger:
    """Open an empty ledger on SQLite in memory, until the end of the test."""
    return sql_ledger(clock, memory_engine(clock))


@contextmanager
def sqlite_ledger(clock: FrozenClock, path: Path) -> Iterator[Ledger]:
    """Open the ledger in an SQLite file that has its schema already."""
    engine = open_engine(f"sqlite:///{path}")
    try:
        yield sql_ledger(clock, compiled_once(engine))
    finally:
        engine.dispose()


@contextmanager
def server_ledger(clock: FrozenClock, url: URL) -> Iterator[Ledger]:
    """Open the ledger in a database that has its schema already, as on its first day."""
    empty(url)
    engine = with_dialect(server_engine(url), dialect_of(server_engine(url)))
    try:
        yield sql_ledger(clock, engine)
        assert "Current Checked out connections: 0" in engine.pool.status()
    finally:
        engine.dispose()


@cache
def server_engine(url: URL) -> Engine:
    """Make the one engine for a database: to compile each statement anew takes long."""
    return open_engine(url.render_as_string(hide_password=False))


def empty(url: URL) -> None:
    """Forget all but the system's own schedule. To make the tables anew would take far longer.

    In a session of the engine, which the test goes on with: one of its own would cost as much. Not
    in one that is left of an earlier test, which may have ended the server.
    """
    server_engine(url).dispose()
    own = [table.name for table in reversed(metadata.sorted_tables) if table.name != "Scheduler"]
    with server_engine(url).begin() as session:
        for table in own:
            session.exec_driver_sql(f"DELETE FROM {table}")
        session.exec_driver_sql("DELETE FROM Scheduler WHERE system_id IS NULL")
