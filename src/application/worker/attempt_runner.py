"""One attempt that the ledger has started: run its task, and decide what becomes of it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

import attrs
import msgspec

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.retry_policies import RetryPolicies
from cronhare.domain.messages.headers import kept_headers
from cronhare.domain.messages.messages import AttemptRef
from cronhare.domain.retries.crashes import Crash
from cronhare.domain.retries.error_classes import classified
from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.retries.retry import (
    GiveBack,
    Quarantine,
    RetryAfter,
    Verdict,
    await_task,
    decide,
    give_back,
)
from cronhare.domain.schedules.catalog import Catalog, MissingKind, MissingTask
from cronhare.domain.schedules.params import force_instant
from cronhare.domain.schedules.standalone import NO_DEADLINE, is_standalone
from cronhare.domain.schedules.task import Task, TaskType
from cronhare.domain.schedules.topic import NoListener, say_unheard
from cronhare.domain.texts.naming import called
from cronhare.ports.attempts import Finish
from cronhare.ports.broker import Delivery
from cronhare.ports.errors import LedgerUnavailable
from cronhare.ports.records import Attempt
from cronhare.ports.runner import AttemptResult, Captured, Invocation, StopReason, TaskRunnerPort
from cronhare.ports.system import TracingPort

from ..logs import place_of, say
from ..redelivery.delay import without_delay_count
from .leases import LeaseKeeper
from .ledger import WorkerLedger
from .own_waits import OwnWaits
from .recording import End

log = logging.getLogger(__name__)

#: Seconds for which a run waits until the jobs file is read again.
READING = 10.0


@attrs.define(kw_only=True, eq=False)
class AttemptRunner:
    """Runs attempts.

    *read_again* reads the jobs file again if it has changed; *attempts_of* those of an execution
    before this one. *grace* is a shutdown's.
    """

    _ledger: WorkerLedger
    _runner: TaskRunnerPort
    _catalog: Catalog
    _keeper: LeaseKeeper
    _policies: RetryPolicies
    _random_fraction: Callable[[], float]
    _own_waits: OwnWaits
    _tracing: TracingPort
    _read_again: Callable[[], Awaitable[None]]
    _attempts_of: Callable[[int], Sequence[Attempt]]
    _grace: timedelta
    _reading: asyncio.Future[None] | None = attrs.field(init=False, default=None)
    _is_interrupted: bool = attrs.field(init=False, default=False)
    _winds_down: bool = attrs.field(init=False, default=False)
    _kept_alive: set[int] = attrs.field(init=False, factory=set[int])
    _ends: dict[int, asyncio.Event] = attrs.field(init=False, factory=dict[int, asyncio.Event])

    def interrupt(self) -> None:
        """Stop what runs; what begins from now on ends before it is run."""
        self._is_interrupted = True
        for execution_id in self._keeper.held:
            self._runner.stop(execution_id, StopReason.INTERRUPTED)

    def wind_down(self) -> None:
        """Ask what stays alive to end, as it never would by itself; the rest may go on."""
        self._winds_down = True
        for execution_id in self._kept_alive:
            self._runner.stop(execution_id, StopReason.WINDING_DOWN)

    async def run(self, execution: Execution, delivery: Delivery, ticket: AttemptRef) -> End:
        """Run an attempt that *delivery* began; answer what is to be recorded of it."""
        say(log, logging.INFO, "attempt.start", "Processing task", execution)
        if log.isEnabledFor(logging.DEBUG):
            params = f"Task parameters: {execution.params}"
            say(log, logging.DEBUG, "attempt.params", params, **place_of(execution))
        began = self._ledger.clock.monotonic()
        with self._tracing.span("attempt", **place_of(execution)) as span:
            ran, verdict, now = await self._run_here(execution, delivery.queue)
            duration = self._ledger.clock.monotonic() - began
            if isinstance(verdict, RetryAfter):
                verdict, now = await self._with_own_wait(execution, ran.outcome, verdict, now)
            span.note(ending=ran.outcome.ending.value, verdict=type(verdict).__name__)
            if ran.outcome.error is not None:
                span.fail(ran.outcome.error.message)
        finish = Finish(execution=execution, ran=ran, verdict=verdict, limits=self._policies.limits)
        return _end_of(finish, delivery, ticket, now=now, duration=duration)

    async def quarantine(
        self, execution: Execution, delivery: Delivery, ticket: AttemptRef, why: Quarantine
    ) -> End:
        """End an attempt that is not run, since its message has ended the workers before us."""
        error = TaskError(message=why.reason)
        ran = AttemptResult(outcome=Outcome(ending=Ending.CRASHED, error=error))
        finish = Finish(execution=execution, ran=ran, verdict=why)
        return _end_of(finish, delivery, ticket, now=await self._end(execution), duration=0.0)

    async def _run_here(
        self, execution: Execution, queue: str
    ) -> tuple[AttemptResult, Verdict, datetime]:
        """Run the attempt, unless it came to the wrong worker, and decide what becomes of it."""
        task = find_task(execution, self._catalog)
        if isinstance(task, MissingTask) and is_awaited(execution, task, self._catalog):
            await self._have_file_read()
            task = find_task(execution, self._catalog)
        if isinstance(task, MissingTask):
            now = await self._ledger.now()
            if (back := self._give_back(execution, task, queue, now)) is not None:
                return _not_run(back.reason), back, await self._end(execution)
        ran = await self._run_task(execution, task)
        now = await self._end(execution)
        if ran.outcome.error is not None:
            ran = attrs.evolve(ran, outcome=self._classified(execution, ran.outcome))
        restarts = await self._restarts(execution, ran, now)
        return ran, self._decide(execution, ran.outcome, now, restarts=restarts), now

    async def _have_file_read(self) -> None:
        """Have the jobs file read again, once for all that ask meanwhile: a file system may hang.

        A fault in that is not the run's: it still lacks its task.
        """
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read_again())
        try:
            async with asyncio.timeout(READING):
                await asyncio.shield(self._reading)
        except Exception:
            text = f"The jobs file was not read again in {READING:g} s, or by a fault of ours"
            log.exception("%s", text, extra={"action": "reload.refused"})

    async def _restarts(
        self, execution: Execution, ran: AttemptResult, now: datetime
    ) -> tuple[Crash, ...]:
        """Find the shutdowns that a task may have asked for itself, once they may be too many.

        What stays alive is ended by each shutdown, at once.
        """
        policy, since = self._policies.crashes_of(execution), execution.started_at
        if (
            ran.outcome.ending is not Ending.INTERRUPTED
            or ran.pid is None  # it was not run
            or execution.attempt <= policy.limit
            or is_standalone(execution.queue)
        ):
            return ()
        try:
            attempts = await self._ledger.ask(lambda: self._attempts_of(execution.id))
        except LedgerUnavailable:  # the next round asks again
            return ()
        ended = [(each, each.finished_at or now) for each in attempts]
        interruptions = [
            (Crash(at, Ending.INTERRUPTED, each.node), at - each.started_at)
            for each, at in ended
            if (each.ending == Ending.INTERRUPTED and each.pid) or each.attempt == execution.attempt
            if since is None or each.started_at >= since  # not those from before a replay
        ]
        return policy.restarts(interruptions, grace=self._grace, now=now)

    def _give_back(
        self, execution: Execution, missing: MissingTask, queue: str, now: datetime
    ) -> GiveBack | None:
        """Give an attempt back whose task this worker lacks, and another may have.

        What another program's worker nacks in a named queue comes back through the main one; so may
        a forged message. Who lacks the task there ends nothing.
        """
        if queue == execution.queue:
            said, expires_at = execution.last_error, execution.expires_at
            awaited = is_awaited(execution, missing, self._catalog)
            wait = await_task(missing.reason, said=said, now=now, expires_at=expires_at)
            return wait if awaited else None
        return give_back(
            f"it came back through {queue}, whose worker has no such task; on to {execution.queue}",
            attempt=execution.attempt,
            policy=self._policies.of(execution),
            random_fraction=self._random_fraction(),
        )

    def _decide(
        self,
        execution: Execution,
        outcome: Outcome,
        now: datetime,
        own_wait: timedelta | None = None,
        restarts: Sequence[Crash] = (),
    ) -> Verdict:
        return decide(
            outcome,
            deaths=execution.deaths,
            policy=self._policies.of(execution),
            crash_policy=self._policies.crashes_of(execution),
            crashes=execution.crashes_after(outcome.ending, now=now),
            now=now,
            random_fraction=self._random_fraction(),
            own_wait=own_wait,
            restarts=restarts,
        )

    async def _with_own_wait(
        self, execution: Execution, outcome: Outcome, verdict: RetryAfter, now: datetime
    ) -> tuple[Verdict, datetime]:
        """Let the task's own strategy choose the wait before the retry, if it has one."""
        task = find_task(execution, self._catalog)
        if not isinstance(task, Task) or task.policy.strategy is None or self._is_interrupted:
            return verdict, now
        wait = await self._own_waits.ask(
            task, execution, outcome, policy_wait=verdict.delay, now=now
        )
        now = await self._end(execution)
        return (verdict if wait is None else self._decide(execution, outcome, now, wait)), now

    def _classified(self, execution: Execution, outcome: Outcome) -> Outcome:
        """Give the error its class, where the task's jobs file has one for it."""
        task = find_task(execution, self._catalog)
        return classified(outcome, task.policy.errors) if isinstance(task, Task) else outcome

    async def _end(self, execution: Execution) -> datetime:
        """Let nothing stop it any more, and tell the time of its end."""
        self._keeper.has_ended(execution)
        return await self._ledger.now()

    async def _run_task(self, execution: Execution, task: Task | MissingTask) -> AttemptResult:
        match prepare(execution, task):
            case AttemptResult() as refused:
                return refused
            case invocation:
                await self._stop_earlier(execution)
                stays_alive = is_standalone(execution.queue)
                if self._is_interrupted or (self._winds_down and stays_alive):
                    return _not_run("interrupted: the worker shuts down")
                over = self._ends[execution.id] = asyncio.Event()
                if stays_alive:
                    self._kept_alive.add(execution.id)
                try:
                    with self._tracing.span("child", task=invocation.task.name):
                        traced = attrs.evolve(invocation, trace=self._tracing.current())
                        return await self._runner.run(traced)
                finally:
                    self._kept_alive.discard(execution.id)
                    del self._ends[execution.id]
                    over.set()

    async def _stop_earlier(self, execution: Execution) -> None:
        """Stop an attempt that was lost here while the process stood still."""
        while (over := self._ends.get(execution.id)) is not None:
            self._runner.stop(execution.id, StopReason.LEASE_LOST)
            await over.wait()


def _end_of(
    finish: Finish, delivery: Delivery, ticket: AttemptRef, *, now: datetime, duration: float
) -> End:
    headers = kept_headers(without_delay_count(delivery.message.headers))
    return End(ticket=ticket, finish=finish, now=now, duration=duration, headers=headers)


def _not_run(why: str) -> AttemptResult:
    """End an attempt that is given back before it is run."""
    return AttemptResult(outcome=Outcome(ending=Ending.INTERRUPTED, error=TaskError(message=why)))


def find_task(execution: Execution, catalog: Catalog) -> Task | MissingTask:
    """Find the task of an execution among those of the worker's jobs file."""
    return catalog.find(
        execution.task,
        source=execution.source,
        name=execution.task_name,
        topic=execution.topic,
    )


def prepare(execution: Execution, task: Task | MissingTask) -> Invocation | AttemptResult:
    """Say what to run; or how the attempt ends if nothing can be run."""
    if isinstance(task, MissingTask):
        return _without_task(execution, task)
    try:
        params = msgspec.json.decode(execution.params)
    except (msgspec.DecodeError, RecursionError) as error:
        return _refused(f"the params are not JSON: {error}")
    timeout = NO_DEADLINE if is_standalone(execution.queue) else None
    if (limit := execution.timeout or timeout) is not None:
        task = attrs.evolve(task, timeout=limit)
    return Invocation(
        execution_id=execution.id,
        execution_key=execution.key,
        scheduler_id=execution.scheduler_id,
        schedule_name=execution.schedule_name,
        attempt=execution.attempt,
        deaths=execution.deaths,
        due_at=execution.due_at,
        fence=execution.fence,
        task=task,
        params=force_instant(params),
        owned_by=execution.owned_by,
        topic=execution.topic,
    )


def is_awaited(execution: Execution, missing: MissingTask, catalog: Catalog) -> bool:
    """Tell whether a worker that has read its jobs file anew may have the task.

    A run that names a task of that file was applied with it, and an event that fails unheard has a
    listener. A number in a row, or in somebody's message, may be no task's at all.
    """
    if missing.kind is MissingKind.FOREIGN and catalog.sources:
        return False
    is_named = execution.task_name is not None and execution.topic is None
    return is_named or execution.no_listener == NoListener.FAIL


def _without_task(execution: Execution, missing: MissingTask) -> AttemptResult:
    """End the attempt: an event without a task succeeds, an unknown task fails for good.

    So does an event whose schedule says so; and another source's task: it is unknown whether a
    worker that has it ever gets the message.
    """
    may_be_unheard = execution.no_listener != NoListener.FAIL
    match missing.kind:
        case MissingKind.UNHEARD if may_be_unheard:
            return _unheard(execution)
        case MissingKind.UNKNOWN if may_be_unheard and execution.task.type == TaskType.EVENT:
            return _unheard(execution)
        case MissingKind.FOREIGN:
            return _refused(f"queue {execution.queue} led it to the wrong worker: {missing}")
    return _refused(str(missing))


def _unheard(execution: Execution) -> AttemptResult:
    text = say_unheard(called(execution.task, topic=execution.topic))
    say(log, logging.WARNING, "event.no-listener", text, execution)
    line = f"{text}\n"
    return AttemptResult(
        outcome=Outcome(ending=Ending.SUCCEEDED),
        stderr=Captured(head=line, bytes=len(line.encode())),
        unheard=True,
    )


def _refused(why: str) -> AttemptResult:
    error = TaskError(message=why, error_class=ErrorClass.PERMANENT)
    return AttemptResult(outcome=Outcome(ending=Ending.FAILED, error=error))
