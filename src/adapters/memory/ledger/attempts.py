"""Attempts in memory."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import attrs
import msgspec

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle import start_fence
from cronhare.domain.lifecycle.archive import archive_end
from cronhare.domain.lifecycle.catching_up import CatchUp, HeldUpRetries
from cronhare.domain.lifecycle.claims import NotToBeRun
from cronhare.domain.lifecycle.gates import Blocked, gates_of
from cronhare.domain.lifecycle.retry_limits import RetryJudge
from cronhare.domain.lifecycle.transitions import (
    end,
    hold,
    is_held,
    may_finish,
    may_give_up,
    overruled,
    renew,
)
from cronhare.domain.messages.messages import TaskMessage
from cronhare.domain.retries.retry import Verdict
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.attempts import (
    Busy,
    Deferred,
    Finish,
    Limited,
    Recorded,
    Refused,
    Renewal,
    StartAnswer,
    StartRequest,
    Superseded,
)
from cronhare.ports.records import Attempt, Output, Unheard
from cronhare.ports.runner import Written

from .retry_limits import MemoryEvidence
from .tables import MemoryLedger


class MemoryAttemptStore:
    """Satisfies `AttemptStorePort`. Each public method is one transaction."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._executions = ledger.executions

    def start(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        catch_up: CatchUp | None = None,
    ) -> Sequence[StartAnswer]:
        """See `AttemptStorePort.start`. No row is ever held here."""
        with self._ledger.lock:
            until = now + lease
            deferred = self._defer(requests, catch_up, now, node)
            return tuple(
                deferred.get(request.execution_id) or self._start(request, now, node, until)
                for request in requests
            )

    def finish(
        self, finishes: Sequence[Finish], *, now: datetime, node: str
    ) -> Sequence[Recorded | Busy]:
        """See `AttemptStorePort.finish`. Nothing is refused here."""
        with self._ledger.lock:
            return tuple(self._finish(finish, now, node) for finish in finishes)

    def give_up(self, finishes: Sequence[Finish], *, now: datetime) -> Sequence[Recorded | Busy]:
        with self._ledger.lock:
            return tuple(self._give_up(finish, now) for finish in finishes)

    def renew(
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        with self._ledger.lock:
            asked = (self._executions.get(execution_id) for execution_id in set(execution_ids))
            held = [
                self._executions.write(execution, renew(execution, now + lease))
                for execution in asked
                if execution is not None and is_held(execution, node)
            ]
        return Renewal(
            held=frozenset(execution.id for execution in held),
            cancel_requested=frozenset(row.id for row in held if row.cancel_requested),
        )

    def keep_written(self, written: Sequence[Written], *, now: datetime, node: str) -> None:
        with self._ledger.lock:
            for one in written:
                execution = self._executions.get(one.execution_id)
                if execution is not None and may_finish(execution, one.attempt, node=node):
                    output = Output(
                        attempt=one.attempt,
                        stdout=one.stdout,
                        stderr=one.stderr,
                        as_of=now,
                        report=one.report,
                    )
                    self._executions.keep_output(execution.id, output)

    def adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused | Busy:
        with self._ledger.lock:
            try:
                return self._ledger.claim_by_hand(
                    message.scheduler_id,
                    key=key,
                    now=now,
                    node=node,
                    task=TaskRef(message.type, message.id),
                    params=message.params_scheduler,
                    queue=queue,
                    deaths=deaths,
                )
            except NotToBeRun as error:
                return Refused(str(error))

    def count_unheard(self, topic: str, *, now: datetime) -> None:
        with self._ledger.lock:
            before = self._ledger.unheard.get(topic)
            count = 1 if before is None else before.count + 1
            self._ledger.unheard[topic] = Unheard(topic=topic, count=count, last_at=now)

    def _defer(
        self, requests: Sequence[StartRequest], catch_up: CatchUp | None, now: datetime, node: str
    ) -> dict[int, Deferred]:
        """Defer the retries that have to wait for a place, of those that could start."""
        could = [
            execution
            for request in (requests if catch_up is not None else ())
            if (execution := self._executions.get(request.execution_id)) is not None
            and isinstance(_judge(execution, request, now, node, now), Execution)
        ]
        held_up = HeldUpRetries(catch_up, could, now=now)
        if not held_up:
            return {}
        waiting = held_up.judge(self._ledger.budgets.values())
        self._ledger.budgets = {budget.queue: budget for budget in held_up.budgets}
        return {
            one.id: Deferred(execution=self._executions.write(one, waiting[one.id]), at=now)
            for one in could
            if one.id in waiting
        }

    def _start(
        self, request: StartRequest, now: datetime, node: str, lease_until: datetime
    ) -> Execution | Refused:
        execution = self._executions.get(request.execution_id)
        if execution is None:
            return Refused(f"execution {request.execution_id} is unknown", unknown=True)
        after = _judge(execution, request, now, node, lease_until)
        if isinstance(after, str):
            return Refused(after)
        if after.state is State.SKIPPED:
            return Refused(str(self._executions.write(execution, after).last_error))
        if not is_held(execution, node):
            if (blocked := self._pass(execution)) is not None:
                self._executions.write(execution, hold(execution, blocked.gate))
                return Refused(f"held: {blocked.reason}", gate=blocked.gate)
            self._executions.record(
                Attempt(execution_id=after.id, attempt=request.attempt, node=node, started_at=now)
            )
        started = self._executions.write(execution, after)
        owner = self._ledger.owner_of(started.scheduler_id)
        return msgspec.structs.replace(started, owned_by=owner)

    def _pass(self, execution: Execution) -> Blocked | None:
        """Let an attempt pass its gates; or say what holds it back."""
        if not gates_of(execution):
            return None
        gates = self._ledger.gates.load_for([execution])
        blocked = gates.start(execution)
        self._ledger.gates.keep(gates)
        return blocked

    def _finish(self, finish: Finish, now: datetime, node: str) -> Recorded:
        execution = self._executions.get(finish.execution.id)
        if execution is None:
            return Superseded()
        number = finish.execution.attempt
        if not may_finish(execution, number, node=node):
            record = self._executions.attempts(execution.id).get(number)
            ending = record.ending if record is not None and record.node == node else None
            return finish.repeated(
                ending,
                state=execution.state,
                attempt=execution.attempt,
                last_error=execution.last_error,
                next_attempt_at=execution.next_attempt_at,
                now=now,
            )
        return self._end(execution, finish, now)

    def _give_up(self, finish: Finish, now: datetime) -> Recorded:
        found = finish.execution
        execution = self._executions.get(found.id)
        if execution is None or not may_give_up(execution, version=found.version):
            return Superseded()
        return self._end(execution, finish, now)

    def _end(self, execution: Execution, finish: Finish, now: datetime) -> Recorded:
        ledger, standing = self._ledger, finish.standing(execution)
        judge = RetryJudge(
            [standing],
            budgets=ledger.budgets.values(),
            breakers=ledger.breakers.values(),
            evidence=MemoryEvidence(ledger.executions),
        )
        ruled = judge.rule(standing, now=now)
        ledger.budgets = {budget.queue: budget for budget in judge.budgets}
        ledger.breakers = {breaker.task: breaker for breaker in judge.breakers}
        state = self._write_end(execution, overruled(execution, ruled.verdict), finish, now)
        return state if ruled.leaves(finish.verdict) else Limited(ruled.verdict, ruled.changes)

    def _write_end(
        self, execution: Execution, verdict: Verdict, finish: Finish, now: datetime
    ) -> State:
        ran, executions = finish.ran, self._executions
        attempt = executions.attempts(execution.id)[execution.attempt]
        executions.record(attrs.evolve(attempt, **Attempt.end(ran, now)))
        if ran.has_output:
            output = Output(
                attempt=attempt.attempt, stdout=ran.stdout, stderr=ran.stderr, report=ran.report
            )
            executions.keep_output(execution.id, output)
        if archived := archive_end(execution, verdict, ran.outcome.error, now):
            self._ledger.keep(archived)
        ended = end(execution, verdict, ran.outcome.ending, now=now)
        return executions.write(execution, ended).state


def _judge(
    execution: Execution, request: StartRequest, now: datetime, node: str, until: datetime
) -> Execution | str:
    return start_fence.start(
        execution, attempt=request.attempt, nacks=request.nacks, node=node, now=now, until=until
    )
