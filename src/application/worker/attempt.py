"""One attempt that the ledger has started: run its task, and decide what becomes of it."""

import asyncio
import logging
from datetime import datetime
from functools import partial

import attrs
import msgspec

from cronhare.domain.execution import Execution
from cronhare.domain.retries.outcome import (
    NOT_IMPORTED,
    Crash,
    Ending,
    ErrorClass,
    Outcome,
    TaskError,
    classified,
)
from cronhare.domain.retries.retry import (
    Complete,
    GiveBack,
    RetryAfter,
    Verdict,
    await_task,
    give_back,
)
from cronhare.domain.schedules.catalog import (
    Catalog,
    MissingKind,
    MissingTask,
    NoListener,
    say_unheard,
)
from cronhare.domain.schedules.keys import NO_DEADLINE, is_standalone
from cronhare.domain.schedules.task import Task, TaskType, force_instant
from cronhare.domain.texts.words import called
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import Finish
from cronhare.ports.broker import Delivery
from cronhare.ports.runner import (
    AttemptResult,
    Captured,
    Invocation,
    StopReason,
    TaskRunnerPort,
    Written,
)

from ..logs import place_of, say
from .leases import Running
from .ledger import WorkerParts
from .record import End
from .strategy import ask_strategy

log = logging.getLogger(__name__)

#: Seconds for which a run waits until the jobs file is read again.
READING = 10.0


@attrs.define(eq=False)
class AttemptRunner:
    """Runs attempts, until it is told to stop what runs."""

    _worker: WorkerParts
    _reading: asyncio.Future[None] | None = attrs.field(init=False, default=None)
    _is_interrupted: bool = attrs.field(init=False, default=False)
    _winds_down: bool = attrs.field(init=False, default=False)

    def interrupt(self) -> None:
        """Stop what runs; what begins from now on ends before it is run."""
        self._is_interrupted = True
        for each in self._worker.keeper.running:
            self._worker.runner.stop(each.execution.id, StopReason.INTERRUPTED)

    def wind_down(self) -> None:
        """Ask what stays alive to end, as it never would by itself; the rest may go on."""
        self._winds_down = True
        for each in self._worker.keeper.running:
            if is_standalone(each.execution.queue) and not each.over:
                self._worker.runner.stop(each.execution.id, StopReason.WINDING_DOWN)

    async def run(self, running: Running, delivery: Delivery) -> End:
        execution, ledger = running.execution, self._worker.ledger
        say(log, logging.INFO, "attempt.start", "Processing task", execution)
        if log.isEnabledFor(logging.DEBUG):
            params = f"Task parameters: {execution.params}"
            say(log, logging.DEBUG, "attempt.params", params, **place_of(execution))
        began = ledger.clock.monotonic()
        with self._worker.tracing.span("attempt", **place_of(execution)) as span:
            task = await self._find_task(execution)
            verdict: Verdict | None = None
            if isinstance(task, MissingTask):
                verdict = self._give_back(execution, task, delivery.queue, await ledger.now())
            what = prepare(execution, task) if verdict is None else _not_run(verdict.reason)
            invocation = what if isinstance(what, Invocation) else None
            ran = await self._run_task(running, what) if isinstance(what, Invocation) else what
            self._worker.keeper.has_ended(running)
            now, duration = await ledger.now(), ledger.clock.monotonic() - began
            if verdict is None and (awaits := _await_import(execution, invocation, ran, now)):
                ran, verdict = _not_run(awaits.reason), awaits
            elif verdict is None and ran.outcome.ending is Ending.SUCCEEDED:
                verdict = Complete()
            elif verdict is None:
                ran, verdict, now = await self._judge(execution, invocation, ran, now)
            span.note(ending=ran.outcome.ending.value, verdict=type(verdict).__name__)
            if ran.outcome.error is not None:
                span.fail(ran.outcome.error.message)
        limits = self._worker.policies.limits
        finish = Finish(execution=execution, ran=ran, verdict=verdict, limits=limits)
        headers = delivery.message.headers
        return End(running=running, finish=finish, now=now, duration=duration, headers=headers)

    async def _find_task(self, execution: Execution) -> Task | MissingTask:
        find = partial(
            self._worker.catalog.find,
            execution.task,
            source=execution.source,
            name=execution.task_name,
            topic=execution.topic,
        )
        task = find()
        if isinstance(task, MissingTask) and is_awaited(execution, task, self._worker.catalog):
            await self._have_file_read()
            return find()
        return task

    async def _run_task(self, running: Running, invocation: Invocation) -> AttemptResult:
        execution = running.execution
        earlier, running.earlier = running.earlier, None
        if earlier is not None and not earlier.over:
            earlier.stopped_for, earlier.ended = StopReason.LEASE_LOST, asyncio.Event()
            self._worker.runner.stop(execution.id, StopReason.LEASE_LOST)
            await earlier.ended.wait()
        if invocation.task.python is not None and invocation.task.python.context:
            ledger = self._worker.ledger
            ask = partial(ledger.in_thread, partial(ledger.attempts.previous_success, execution))
            try:  # not knowing it is no answer: the task would take it for the first run
                before = await ledger.retry.to_finish(ask)
            except LedgerUnavailable:
                return _not_run("interrupted: the worker shuts down, and the ledger is away")
            invocation = attrs.evolve(invocation, previous_success=before)
        if running.stopped_for is StopReason.LEASE_LOST:
            return _not_run("its lease was lost before it began")
        if self._is_interrupted or (self._winds_down and is_standalone(execution.queue)):
            return _not_run("interrupted: the worker shuts down")
        with self._worker.tracing.span("child", task=invocation.task.name):
            if (trace := self._worker.tracing.current()) is not None:
                invocation = attrs.evolve(invocation, trace=trace)
            return await self._worker.runner.run(invocation)

    async def _judge(
        self,
        execution: Execution,
        invocation: Invocation | None,
        ran: AttemptResult,
        now: datetime,
    ) -> tuple[AttemptResult, Verdict, datetime]:
        """Decide what becomes of an execution whose attempt did not succeed, and when it ended."""
        if ran.outcome.error is not None and invocation is not None:
            ran = attrs.evolve(ran, outcome=classified(ran.outcome, invocation.task.policy.errors))
        decided = partial(self._worker.policies.judge, execution, ran.outcome)
        restarts = await self._restarts(execution, ran, now)
        verdict = decided(
            now=now, random_fraction=self._worker.random_fraction(), restarts=restarts
        )
        if (
            not isinstance(verdict, RetryAfter)
            or self._is_interrupted
            or invocation is None
            or invocation.task.policy.strategy is None
        ):
            return ran, verdict, now
        wait = await ask_strategy(
            self._worker.runner, invocation, execution, ran.outcome, policy=verdict.delay, now=now
        )
        now = await self._worker.ledger.now()
        if wait is not None:
            verdict = decided(
                now=now, random_fraction=self._worker.random_fraction(), own_wait=wait
            )
        return ran, verdict, now

    async def _have_file_read(self) -> None:
        """Have the jobs file read again, once for all who ask; a fault in it is not the run's."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._worker.read_again())
        try:
            async with asyncio.timeout(READING):
                await asyncio.shield(self._reading)
        except Exception:
            text = f"The jobs file was not read again in {READING:g} s, or by a fault of ours"
            log.exception("%s", text, extra={"action": "reload.refused"})

    async def _restarts(
        self, execution: Execution, ran: AttemptResult, now: datetime
    ) -> tuple[Crash, ...]:
        """Find the shutdowns that a task may have asked for itself, once they may be too many."""
        if ran.outcome.ending is not Ending.INTERRUPTED or ran.pid is None:  # it was not run
            return ()
        policy, since = self._worker.policies.crashes_of(execution), execution.started_at
        if execution.attempt <= policy.limit or is_standalone(execution.queue):
            return ()
        try:
            attempts = await self._worker.ledger.in_thread(
                lambda: self._worker.attempts_of(execution.id)
            )
        except LedgerUnavailable:  # the next round asks again
            return ()
        ended = [(each, each.finished_at or now) for each in attempts]
        interruptions = [
            (Crash(at, Ending.INTERRUPTED, each.node), at - each.started_at)
            for each, at in ended
            if (each.ending == Ending.INTERRUPTED and each.pid) or each.attempt == execution.attempt
            if since is None or each.started_at >= since  # not those from before a replay
        ]
        return policy.restarts(interruptions, grace=self._worker.grace, now=now)

    def _give_back(
        self, execution: Execution, missing: MissingTask, queue: str, now: datetime
    ) -> GiveBack | None:
        """Give an attempt back whose task this worker lacks, and another may have.

        What another program's worker nacks in a named queue comes back through the main one; so may
        a forged message. Who lacks the task there ends nothing.
        """
        if queue == execution.queue:
            said, expires_at = execution.last_error, execution.expires_at
            awaited = is_awaited(execution, missing, self._worker.catalog)
            wait = await_task(missing.reason, said=said, now=now, expires_at=expires_at)
            return wait if awaited else None
        return give_back(
            f"it came back through {queue}, whose worker has no such task; on to {execution.queue}",
            attempt=execution.attempt,
            policy=self._worker.policies.of(execution),
            random_fraction=self._worker.random_fraction(),
        )


def _await_import(
    execution: Execution, invocation: Invocation | None, ran: AttemptResult, now: datetime
) -> GiveBack | None:
    """Give an attempt back whose app cannot be imported: it is half written, or refused."""
    error = ran.outcome.error
    if invocation is None or invocation.task.python is None or error is None:
        return None
    if error.code != NOT_IMPORTED:
        return None
    said, expires_at = execution.last_error, execution.expires_at
    return await_task(error.message, said=said, now=now, expires_at=expires_at)


def _not_run(why: str) -> AttemptResult:
    return AttemptResult(outcome=Outcome(ending=Ending.INTERRUPTED, error=TaskError(message=why)))


class TaskRunners:
    """Satisfies `TaskRunnerPort` by the runner of a task's kind."""

    def __init__(self, *runners: TaskRunnerPort) -> None:
        self._runners = runners

    async def run(self, invocation: Invocation) -> AttemptResult:
        task, (commands, functions, requests, reminders) = invocation.task, self._runners
        if task.python is not None:
            return await functions.run(invocation)
        if task.reminder is not None:
            return await reminders.run(invocation)
        return await (commands if task.http is None else requests).run(invocation)

    def stop(self, execution_id: int, reason: StopReason) -> bool:
        return any(runner.stop(execution_id, reason) for runner in self._runners)

    def written(self, execution_id: int, *, beyond: int = 0) -> Written | None:
        for runner in self._runners[:2]:  # requests and reminders write nothing
            if (written := runner.written(execution_id, beyond=beyond)) is not None:
                return written
        return None

    async def close(self) -> None:
        await asyncio.gather(*(runner.close() for runner in self._runners))


def prepare(execution: Execution, task: Task | MissingTask) -> Invocation | AttemptResult:
    if isinstance(task, MissingTask):
        return _without_task(execution, task)
    try:
        params = msgspec.json.decode(execution.params)
    except (msgspec.DecodeError, RecursionError) as error:
        return _refused(f"the params are not JSON: {error}")
    limit = execution.timeout or (NO_DEADLINE if is_standalone(execution.queue) else None)
    if limit is not None and limit != task.timeout:
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
        missed=execution.missed,
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
    """End the attempt: an unheard event succeeds if it may, all else fails for good."""
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
