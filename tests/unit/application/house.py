"""The whole system on a frozen clock: no server, no process, no waiting."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from copy import copy
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import attrs

from cronhare.adapters.memory.broker import MemoryInspection, SilentBell
from cronhare.adapters.sql.records.store import SqlRecords
from cronhare.adapters.sql.schedules import SqlScheduleStore
from cronhare.application.worker.delivery import Places
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.domain.messages import Signer
from cronhare.domain.nodes import FORGOTTEN_AFTER, NodeReport
from cronhare.domain.retries.limits import UNLIMITED, RetryLimits
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.retries.retry import Holder
from cronhare.domain.schedules.catalog import Catalog
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.topology import MAIN_QUEUE, ToQueue
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.working import WorkingContainer
from cronhare.ports.broker import Delivery, Envelope, Message, Published
from cronhare.ports.records import ExecutionFilter, Retention
from cronhare.ports.runner import Invocation
from cronhare.ports.system import NOT_TRACED, SILENT, MetricsPort, TracingPort
from tests.frozen_clock import FrozenClock
from tests.memory_ledger import memory_engine
from tests.scripted_runner import Script, ScriptedRunner, succeed
from tests.trial_broker import TrialBroker
from tests.unit.application.outages import (
    AttemptsWithOutages,
    ClaimsWithOutages,
    Outage,
    may_be_away,
)

T = TypeVar("T")
NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
LEASE = timedelta(seconds=30)
GRACE = timedelta(seconds=30)
REPORT = Task(name="daily-report", ref=TaskRef("report", 25), command=("true",))


class Inline(Executor):
    """Runs what it is given at once, in the caller's thread."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:  # noqa: ANN401
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - an executor hands every error on
            future.set_exception(error)
        return future


async def nothing_new(_: Catalog) -> None:
    """Read the jobs file again, which has not changed."""


@attrs.define(slots=False)
class House:
    """One scheduler and one worker, on SQLite and a broker in memory."""

    script: Script = succeed
    node: str = "ant-1"
    start: datetime = NOON
    policy: RetryPolicy = attrs.field(factory=RetryPolicy)
    limits: RetryLimits = UNLIMITED
    holds: bool = False
    says: Callable[[Invocation], str] = lambda _: ""
    page: int = 1_000
    tasks: Sequence[Task] = (REPORT,)
    retention: Retention = attrs.field(factory=Retention)
    outage: Outage = attrs.field(factory=Outage)
    signer: Signer = attrs.field(factory=Signer)
    accepts_foreign: bool = True
    foreign_queues: Sequence[str] = ()
    queues: Sequence[str] = ()
    places: int = 1_000
    apart: frozenset[str] = frozenset()
    metrics: MetricsPort = SILENT
    tracing: TracingPort = NOT_TRACED
    reads_again: Callable[[Catalog], Awaitable[None]] = nothing_new
    executor: Inline = attrs.field(init=False, factory=Inline)
    deliveries: list[Delivery] = attrs.field(init=False, factory=list[Delivery])
    under_way: list[asyncio.Task[None]] = attrs.field(init=False, factory=list[asyncio.Task[None]])
    _uuids: int = 0

    def __attrs_post_init__(self) -> None:
        self.clock = FrozenClock(self.start)
        self.engine = memory_engine(self.clock)
        self.claims = may_be_away(
            ClaimsWithOutages(self.engine, self.clock, self.outage),
            self.outage,
            *("plan_edited", "next_due", "mark_published", "mark_ends_published", "doubt"),
            *("lapsed", "run_by"),
        )
        self.attempts = may_be_away(
            AttemptsWithOutages(self.engine, self.clock, self.outage), self.outage, "keep_written"
        )
        self.schedules = SqlScheduleStore(self.engine, self.clock)
        self.records = may_be_away(
            SqlRecords(self.engine, self.clock), self.outage, "keep_failure", "clean_up"
        )
        self.build()

    def build(self, *, broker: TrialBroker | None = None) -> None:
        """Make everything but the ledger: a process that starts."""
        self.broker = broker or TrialBroker(self.clock, queues=self.queues)
        self.connection = self.broker.connect()
        self.runner = ScriptedRunner(self.script, holds=self.holds, says=self.says)
        catalog = Catalog(self.tasks)
        self.container = container = WorkingContainer(
            settings=Settings(
                database_url="sqlite:////dev/null/in-memory",  # nobody can open it
                broker_url="amqp://nobody@localhost",
                lease=LEASE,
                shutdown_grace=GRACE,
                foreign_messages="accept" if self.accepts_foreign else "refuse",
                foreign_queues=tuple(self.foreign_queues),
            ),
            node=self.node,
            clock=self.clock,
            ledger_clock=self.clock,
            ledger_time=self.clock,
            engine=self.engine,
            claims=self.claims,
            attempts=self.attempts,
            schedules=self.schedules,
            records=self.records,
            broker=self.broker,
            broker_inspection=MemoryInspection(),
            bell=SilentBell(),
            runner=self.runner,
            catalog=catalog,
            policies=RetryPolicies(self.policy, catalog, limits=self.limits),
            signer=self.signer,
            counting=self.metrics,
            tracing=self.tracing,
            uuid4=self.uuid,
            random_fraction=lambda: 0.0,
            publishing_threads=Inline(),
            ledger_threads=self.executor,
            waiting_threads=self.executor,
        )
        housekeeper = container.housekeeper(retention=self.retention)
        self.publisher = container.publisher(run_system_task=housekeeper.run)
        self.dispatcher = container.dispatcher()
        self.reconciler = container.reconciler(policies=RetryPolicies(self.policy), limit=self.page)
        self.keeper = container.lease_keeper(stop=self.runner.stop)
        self.ledger = container.worker_ledger(clock=self.clock)
        self.worker = container.worker(
            ledger=self.ledger,
            broker=self.connection,
            keeper=self.keeper,
            places=Places(self.places, self.apart),
            retry_delay=timedelta(milliseconds=self.policy.backoff.delay),
            us=Holder(node=self.node, host="ant", boot="first"),
            lives=lambda _: False,
            read_again=partial(self.reads_again, catalog),
            lingers=(0.0, 0.0),
        )
        self.trail = container.audit_trail()
        self.applier = container.applier()
        self.names = container.names()
        self.administrator = container.administrator(policy=self.policy)

    def neighbour(self, node: str, *, signer: Signer | None = None) -> "House":
        """Start another process on the same ledger and the same broker."""
        house = copy(self)
        house.node, house.deliveries, house.under_way = node, [], []
        house.signer = self.signer if signer is None else signer
        house.build(broker=self.broker)
        return house

    def uuid(self) -> UUID:
        """Give the next of a row of uuids."""
        self._uuids += 1
        return UUID(int=self._uuids)

    def add(self, name: str = "report", *, ago: timedelta = timedelta(0), **changes: Any) -> None:  # noqa: ANN401
        """Write a schedule that is due every minute, unless *changes* say otherwise."""
        every_minute = ScheduleDraft(name=name, task=REPORT.ref, schedule="* * * * *")
        draft = attrs.evolve(every_minute, **changes)
        self.schedules.save([draft], source=None, now=self.now - ago)

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Look into the ledger, or change what no port does; *values* stand for question marks."""
        with self.engine.connect() as connection:
            done = connection.exec_driver_sql(statement, values)
            return [tuple(row) for row in done] if done.returns_rows else []

    def report(self, name: str = "bee", **fields: Any) -> None:  # noqa: ANN401
        """Let a node report itself: a worker at work, unless *fields* say otherwise."""
        known = {"role": "worker", "host": name, "version": "1", "started_at": self.start}
        seen = {"seen_at": self.now, "queues": (MAIN_QUEUE,), "consumed_at": self.now}
        report = NodeReport(name=name, **{**known, **seen, **fields})
        self.container.nodes().report(report, kept_for=FORGOTTEN_AFTER)

    @property
    def now(self) -> datetime:
        """The time on the frozen clock."""
        return self.clock.now()

    async def open(self) -> None:
        """Let the worker consume."""
        await self.connection.consume(
            [MAIN_QUEUE], prefetch=1_000, on_delivery=self.deliveries.append
        )

    async def open_wide(self) -> None:
        """Let the worker handle all deliveries at a time, each from when it comes."""
        await self.connection.consume([MAIN_QUEUE], prefetch=1_000, on_delivery=self.begin)

    def begin(self, delivery: Delivery) -> None:
        """Handle a delivery beside the others."""
        self.under_way.append(asyncio.create_task(self.worker.handle(delivery)))

    async def settle(self) -> None:
        """Let the event loop do all that it can do without time passing."""
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined] # what it will call
        for _ in range(60):
            await asyncio.sleep(0)
            if not ready:
                break
        for task in self.under_way:
            if task.done():
                task.result()

    async def restart(self, *, gone: Sequence[str] = ()) -> None:
        """Lose the process and all that it held in memory, and start another."""
        await self.connection.close()
        self.deliveries.clear()
        self.build()
        self.reconciler.recover(self.now, gone=gone)
        await self.open()

    async def restart_worker(self, *, wide: bool = False) -> None:
        """Lose the process, but not what its broker holds, and start another."""
        await self.connection.close()
        self.deliveries.clear()
        self.under_way.clear()
        self.build(broker=self.broker)
        await (self.open_wide() if wide else self.open())
        await self.settle()

    async def turn(self, advance: timedelta = timedelta(0)) -> None:
        """Let time pass, then let scheduler and worker do all that is to do."""
        self.clock.advance(advance)
        self.dispatcher.tick(self.now)
        self.reconciler.tick(self.now)
        await self.work()

    async def work(self) -> None:
        """Handle what is in the queue."""
        for _ in range(3):
            await asyncio.sleep(0)
        while self.deliveries:
            await self.worker.handle(self.deliveries.pop(0))
            await asyncio.sleep(0)

    def publish(
        self,
        body: bytes,
        headers: Mapping[str, object] | None = None,
        *,
        message_id: str | None = None,
    ) -> None:
        """Publish as somebody else would."""
        message = Message(body=body, headers=headers or {}, id=message_id)
        assert self.broker.publish([Envelope(message, ToQueue())]) == [Published.CONFIRMED]

    def publish_again(self) -> None:
        """Publish the coming attempt of the only execution once more, as a reconciler might."""
        assert self.publisher.publish([self.only], now=self.now).published == 1

    def messages(self, queue: str) -> list[Message]:
        """Take all that is in a queue."""
        taken = []
        while (delivery := self.broker.receive(queue)) is not None:
            self.broker.ack(delivery)
            taken.append(delivery.message)
        return taken

    @property
    def only(self) -> Execution:
        """The one execution there is."""
        [execution] = self.executions()
        return execution

    def executions(self, *states: State) -> list[Execution]:
        """Read the users' executions, oldest first."""
        rows = self.records.executions(ExecutionFilter(states=states, limit=1_000_000))
        return [row for row in reversed(rows) if not row.task.is_system]
