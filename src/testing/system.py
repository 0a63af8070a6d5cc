"""The fixture `cronhare`: the whole system on a frozen clock, within the test's thread."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor, Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from zoneinfo import ZoneInfo

import attrs
from sqlalchemy import delete, or_, select

from cronhare.adapters.jobs.reader import read_content
from cronhare.adapters.memory.broker import SilentBell
from cronhare.adapters.sql.tables.tables import executions, schedulers
from cronhare.application.administration.reading.lookup import find_schedule
from cronhare.application.worker.delivery import Places
from cronhare.domain.cron import find_zone
from cronhare.domain.execution import UNFINISHED, WAITING, Execution, Graces, State
from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.retries.policy import Jitter, RetryPolicy
from cronhare.domain.schedules.catalog import MissingTask
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.keys import own_key
from cronhare.domain.schedules.task import TaskRef, assigned_number
from cronhare.domain.texts.moments import as_span
from cronhare.domain.topology import LANE_UNIT
from cronhare.entrypoints.container import Container, providers
from cronhare.entrypoints.node_identity import this_actor
from cronhare.entrypoints.python.app import App
from cronhare.entrypoints.python.client import Client, using
from cronhare.entrypoints.python.handles import result_of
from cronhare.entrypoints.python.tasks import RemoteTask, Task
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.working import WorkingContainer
from cronhare.ports.broker import Delivery
from cronhare.ports.records import ExecutionFilter
from cronhare.task import TransientError

from .clock import FrozenClock
from .ledger import memory_engine, release
from .runner import Asked, Failure, InlineRunner, outside_of_loops

T = TypeVar("T")

_NEVER: Final = datetime.max.replace(tzinfo=UTC)

#: More than the runs of any test.
_ALL: Final = 1_000_000

#: At so many turns in one instant a test would never end: a task enqueues itself, say.
_MOST_TURNS: Final = 1_000

#: Ends of attempts that cost none.
_FREE: Final = frozenset({Ending.SNOOZED, Ending.INTERRUPTED})

#: What was enqueued is sent at once.
_GRACES: Final = Graces(claimed=timedelta(0))

_ROW: Final = executions.c
_WAITING: Final = select(
    *_ROW["state", "queue", "published_at", "next_attempt_at", "check_at", "expires_at"]
).where(or_(*(_ROW.state == state for state in sorted(WAITING))))  # IN is prepared at each call


@attrs.frozen(kw_only=True)
class Run:
    """A run of a schedule, or one that was enqueued.

    *state* is `succeeded`, `failed`, `retrying`, `published` (it waits), … as `cronhare executions`
    shows it. *attempts* counts those that began, without snoozes; *missed* the instants that it
    makes up for; *key* is as `enqueue` was given it. *result* is what its task returned, *error*
    what was wrong last, if it did not succeed. *due_at* is in the zone of `start`.
    """

    id: int
    schedule: str
    task: str
    state: str
    attempts: int
    missed: int
    due_at: datetime
    key: str
    params: dict[str, Any]
    result: Any = None
    error: str | None = None


class Runs(list[Run]):
    """Runs, the first one first."""

    def one(self) -> Run:
        """Give the only one.

        Raises:
            AssertionError: there is none, or there are several; they are listed.
        """
        if len(self) != 1:
            listed = "".join(f"\n  {each}" for each in self)
            raise AssertionError(f"one run is expected, there are {len(self)}{listed}")
        return self[0]


class _Inline(Executor):
    """Runs what it is given at once, in the caller's thread."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:  # noqa: ANN401
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - an executor hands every error on
            future.set_exception(error)
        return future


class Cronhare:
    """Schedules and tasks of an app on a frozen clock; tasks are called in the test's thread.

    The ledger is SQLite in memory, the broker that of `cronhare up`: what decides about due
    instants, misfires, overlaps, retries and limits is what decides in production. Only cronhare's
    clock stands still: `datetime.now()` in a task tells the real time. Time limits and executors
    have no meaning here.
    """

    def __init__(self, find_app: Callable[[], App]) -> None:
        self._find_app = find_app
        self._parts: _Parts | None = None
        self._zone = ZoneInfo("UTC")
        self._client = using(_InTest(lambda: self._begun))

    def __enter__(self) -> Self:
        self._client.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.__exit__(None, None, None)
        if self._parts is not None:
            self._parts.close()
        release()

    def start(
        self, at: str | datetime | None = None, *, tz: str = "UTC", app: App | None = None
    ) -> None:
        """Apply the app at that time, of the zone *tz*, without which it is now; once a test.

        Raises:
            RuntimeError: it was started, which the first enqueue or question does as well.
            JobsFileInvalid: the app cannot be applied; every fault is told.
        """
        if self._parts is not None:
            raise RuntimeError("cronhare has started: start(…) comes first in a test, and once")
        self._zone = find_zone(tz)
        moment = datetime.fromisoformat(at) if isinstance(at, str) else at or datetime.now(UTC)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=self._zone)
        self._parts = _Parts(app or self._find_app(), moment.astimezone(UTC))

    @property
    def now(self) -> datetime:
        """The time on the frozen clock, in the zone of `start`."""
        return self._begun.clock.now().astimezone(self._zone)

    def advance(self, span: str | timedelta) -> None:
        """Let that time pass, such as `"1h30m"`: what becomes due in it is run, in order."""
        parts = self._begun
        end = parts.clock.now() + as_span(span)
        parts.settle()
        while parts.go_on(until=end):
            pass
        parts.clock.move_to(end)

    def down(self, span: str | timedelta) -> None:
        """Let that time pass with neither scheduler nor worker; `advance` makes up for it."""
        self._begun.clock.advance(as_span(span))

    def run_enqueued(self) -> None:
        """Run what is due now, and what was enqueued for now; no time passes."""
        self._begun.settle()

    def fail(
        self,
        task: Task[..., Any] | str,
        *,
        times: int = 1,
        error: Exception | type[Exception] | None = None,
    ) -> None:
        """Have the first attempts of each run of a task fail, so many *times*, with that error.

        Without one it is `TransientError`. The task is not called then.
        """
        name = task if isinstance(task, str) else task.name
        failure = Failure(times, error or TransientError("the test has it fail"))
        self._begun.runner.failures[name] = failure

    def runs(self, schedule: str | None = None) -> Runs:
        """List the runs of a schedule, or of all, but for those that were skipped.

        Raises:
            NotFound: there is no such schedule; with the names that come close.
        """
        found = self._found(schedule=schedule, states=frozenset(State) - {State.SKIPPED})
        if schedule is not None and not found:
            find_schedule(self._begun.container.schedules(), schedule)
        return found

    def enqueued(self, task: Task[..., Any] | str | None = None) -> Runs:
        """List what was enqueued, of a task or of all, and has not run."""
        name = task.name if isinstance(task, Task) else task
        waiting = (run for run in self._found(states=WAITING) if name in {None, run.task})
        return Runs(run for run in waiting if ":" in run.schedule and not run.attempts)

    @property
    def _begun(self) -> "_Parts":
        if self._parts is None:
            self.start()
        assert self._parts is not None
        return self._parts

    def _found(self, **wanted: Any) -> Runs:  # noqa: ANN401 - see ExecutionFilter
        found = self._begun.container.records().executions(ExecutionFilter(**wanted, limit=_ALL))
        return Runs(self._run(each) for each in reversed(found))

    def _run(self, execution: Execution) -> Run:
        container = self._begun.container
        records = container.records()
        found = container.catalog().find(
            execution.task, source=execution.source, name=execution.task_name, topic=execution.topic
        )
        name = execution.task_name or "" if isinstance(found, MissingTask) else found.name
        attempts = [each for each in records.attempts(execution.id) if each.ending not in _FREE]
        task = self._begun.app.tasks.get(name)
        return Run(
            id=execution.id,
            schedule=execution.schedule_name,
            task=name,
            state=execution.state.value,
            attempts=len(attempts),
            missed=execution.missed,
            due_at=execution.due_at.astimezone(self._zone),
            key=own_key(execution.key),
            params=json.loads(execution.params),
            result=result_of(records, execution.id, task and task.function),
            error=None if execution.state is State.SUCCEEDED else execution.last_error,
        )


class _WithoutJitter(RetryPolicies):
    """Policies whose retries wait for as long as they would without their jitter."""

    def of(self, execution: Execution) -> RetryPolicy:
        policy = super().of(execution)
        return attrs.evolve(policy, backoff=attrs.evolve(policy.backoff, jitter=Jitter.NONE))


class _Parts:
    """Scheduler and worker of an *app* that was applied *at* that moment."""

    def __init__(self, app: App, at: datetime) -> None:
        self.app = app
        self.clock = FrozenClock(at)
        settings = Settings(database_url="sqlite:////dev/null/in-memory")  # nobody can open it
        place = f"{app.name}:app"
        file = read_content(app.tables(place), place, folder=Path(), policy=settings.policy)
        self._loop = asyncio.new_event_loop()
        self.runner = InlineRunner(app)
        self.container = container = WorkingContainer(
            settings=settings,
            clock=providers.Object(self.clock),
            engine=providers.Object(memory_engine(self.clock)),
            tasks=providers.Object(file.tasks),
            runner=providers.Object(self.runner),
            bell=providers.Object(SilentBell()),
            background_bell=providers.Object(SilentBell()),
            random_fraction=providers.Object(lambda: 0.0),
            **dict.fromkeys(
                ("ledger_threads", "waiting_threads", "chores_thread", "publishing_threads"),
                providers.Object(_Inline()),
            ),
        )
        container.policies.set_provides(_WithoutJitter)
        # An edit counts at once.
        self._dispatcher = container.dispatcher(refresh=timedelta(0))
        self._reconciler = container.reconciler(graces=_GRACES)
        self._queues = set[str]()
        self._deliveries = deque[Delivery]()
        self._handled: asyncio.Task[None] | None = None
        # To look for edits and what is due at each instant would take a third of a test.
        self._due = _NEVER
        self.is_asked = True  # the test, or a task, may have enqueued or edited something
        with container.engine().begin() as connection:
            connection.execute(delete(schedulers))  # the system's own, which removes old runs
        container.applier().apply(file, actor=this_actor())
        self._run(self._open())

    def close(self) -> None:
        self._run(self._connection.close())
        if self._handled is not None:
            self._handled.cancel()
        self._loop.close()

    def settle(self) -> None:
        if self.runner.is_calling:
            raise RuntimeError(
                "a task waits for others to run: only the test can let time pass. It may ask by "
                "result(timeout=0), and return Snooze(…) until they have ended"
            )
        now = self.clock.now()
        for _ in range(_MOST_TURNS):
            if self.is_asked or self._due <= now:
                tick = self._dispatcher.tick(now)
                self.is_asked = self._look(now)
                after = None if tick.claimed or tick.skipped else now  # it may be due once more
                self._due = self.container.claims().next_due(after=after) or _NEVER
            while (asked := self._run(self._handle())) is not None:
                self.runner.perform(*asked)
            if not self.is_asked and self._due > now:
                return
        raise RuntimeError(f"{_MOST_TURNS} turns, and it is still {now:%Y-%m-%d %H:%M:%S} UTC")

    def go_on(self, *, until: datetime = _NEVER) -> bool:
        """Do what is to be done next, at its time; False if there is nothing until then."""
        now, rows = self.clock.now(), self._waiting()
        looks = {
            self.container.claims().next_due(after=now),
            *(at for r in rows for at in _looks(r)),
        }
        self._due = min((at for at in looks if at is not None and at > now), default=_NEVER)
        arrivals = (at for row in rows for at in _arrivals(row) if at > now)
        at = min(self._due, *arrivals, _NEVER)
        if at > until or at is _NEVER:
            return False
        self.clock.move_to(at)
        self.settle()
        return True

    def wait_for(self, execution_id: int, timeout: float | None) -> None:
        """Let time pass until a run has ended, *timeout* seconds at most."""
        now = self.clock.now()
        end = _NEVER if timeout is None else now + timedelta(seconds=timeout)
        records = self.container.records()
        run = records.execution(execution_id)
        has_ended = run is None or run.state not in UNFINISHED
        if self.runner.is_calling and (has_ended or timeout == 0):
            return  # a task may look, if it does not wait
        self.settle()
        while (run := records.execution(execution_id)) is not None and run.state in UNFINISHED:
            if run.attempt > _MOST_TURNS:
                raise RuntimeError(
                    f"run {execution_id} does not end: attempt {run.attempt} is next"
                )
            if self.go_on(until=end):
                continue
            if timeout is None:
                raise RuntimeError(f"run {execution_id} does not end: nothing is to be done")
            self.clock.move_to(end)
            raise TimeoutError(f"run {execution_id} has not ended within {timeout:g} s")

    def _look(self, now: datetime) -> bool:
        """Have the reconciler look if a row is late; it sends what was enqueued: no bell rings."""
        rows = self._waiting()
        if new := {row.queue for row in rows} - self._queues:
            self._run(self._consume(new))
        is_late = any(at <= now for row in rows for at in _looks(row))
        return is_late and self._reconciler.tick(now).republished > 0

    def _waiting(self) -> Sequence[Any]:
        with self.container.engine().connect() as connection:
            return connection.execute(_WAITING).all()

    async def _open(self) -> None:
        self._connection = self.container.connection()
        self._worker = self.container.worker(
            broker=self._connection,
            keeper=self.container.lease_keeper(stop=self.runner.stop),
            places=Places(1),
            read_again=_nothing_new,
            lingers=(0.0, 0.0),
        )

    async def _consume(self, queues: set[str]) -> None:
        accept = self._deliveries.append
        await self._connection.consume(sorted(queues), prefetch=_ALL, on_delivery=accept)
        self._queues |= queues

    async def _handle(self) -> Asked | None:
        """Handle deliveries until a task is to be called; or until none is left: then None."""
        while True:
            for _ in range(3):  # what was published arrives
                await asyncio.sleep(0)
            if self._handled is None:
                if not self._deliveries:
                    await self._worker.settled()
                if not self._deliveries:
                    return None
                handle = self._worker.handle(self._deliveries.popleft())
                self._handled = asyncio.create_task(handle)
            asked = asyncio.create_task(self.runner.asked.get())
            await asyncio.wait({self._handled, asked}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            asked.cancel()
            self._handled.result()
            self._handled = None

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return outside_of_loops(self._loop.run_until_complete, work)


class _InTest(Client):
    """The client of all apps while a test runs, whose system begins when it is needed.

    Transactions of the application are of another database: what is enqueued in one is there at
    once, and stays after a rollback.
    """

    def __init__(self, begun: Callable[[], _Parts]) -> None:
        self._begun = begun

    @property
    def container(self) -> Container:  # type: ignore[override] # it is not set
        parts = self._begun()
        parts.is_asked = True
        return parts.container

    def part_of(self, on: object) -> Any:  # noqa: ANN401, ARG002 - as the base has it
        return None

    def waits_for(self, execution_id: int, timeout: float | None) -> None:
        self._begun().wait_for(execution_id, timeout)

    def draft_of(self, task: Task[..., Any] | RemoteTask[Any]) -> ScheduleDraft:
        """Draft also what a ledger has of a task whose code is elsewhere."""
        ref = TaskRef("worker", assigned_number(task.app.name, task.name))
        remote = ScheduleDraft(name=task.own_schedule, task=ref, task_name=task.name)
        return super().draft_of(task) or remote


def _looks(row: Any) -> Iterator[datetime]:  # noqa: ANN401 - as it was selected
    """Say when the reconciler looks at a row that waits."""
    if row.check_at is not None:
        yield row.check_at + _GRACES.of(State(row.state))
    if row.expires_at is not None:
        yield row.expires_at


def _arrivals(row: Any) -> Iterator[datetime]:  # noqa: ANN401 - likewise
    """Say when a message of a row may arrive: its delay was rounded up."""
    if (at := row.next_attempt_at) is not None:
        yield at if row.published_at is None else at + (row.published_at - at) % LANE_UNIT
        yield at + LANE_UNIT


async def _nothing_new() -> None:
    """Read the app again, which has not changed."""
