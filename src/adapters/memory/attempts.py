"""Attempts in memory."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import msgspec

from cronhare.domain import fence
from cronhare.domain.execution import Execution, State
from cronhare.domain.messages import TaskMessage
from cronhare.domain.moves import as_told, claim
from cronhare.domain.task import TaskRef
from cronhare.ports.attempts import Busy, Finish, Recorded, Refused, Renewal, Start, Superseded
from cronhare.ports.records import Attempt, Output
from cronhare.ports.runner import Written

from .endings import end
from .ledger import MemoryLedger


class MemoryAttemptStore:
    """Satisfies `AttemptStorePort`. What has a method here is one transaction."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._history = ledger.history

    def start(
        self, wishes: Sequence[Start], *, now: datetime, node: str, lease: timedelta
    ) -> Sequence[Execution | Refused | Busy]:
        """See `AttemptStorePort.start`. Nobody holds a row here for longer than a call."""
        with self._ledger.lock:
            return tuple(self._start(wish, now, node, now + lease) for wish in wishes)

    def finish(
        self, finishes: Sequence[Finish], *, now: datetime, node: str
    ) -> Sequence[Recorded | Busy]:
        """See `AttemptStorePort.finish`. Nothing is refused here."""
        with self._ledger.lock:
            return tuple(self._finish(finish, now, node) for finish in finishes)

    def give_up(self, finishes: Sequence[Finish], *, now: datetime) -> Sequence[Recorded | Busy]:
        """See `AttemptStorePort.give_up`."""
        with self._ledger.lock:
            return tuple(self._give_up(finish, now) for finish in finishes)

    def renew(
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        """See `AttemptStorePort.renew`."""
        with self._ledger.lock:
            asked = (self._history.get(execution_id) for execution_id in execution_ids)
            held = [
                self._history.change(
                    execution, lease_until=now + lease, version=execution.version + 1
                )
                for execution in asked
                if execution is not None and fence.is_held(execution, node)
            ]
        return Renewal(
            held=frozenset(execution.id for execution in held),
            cancel_requested=frozenset(row.id for row in held if row.cancel_requested),
        )

    def keep_written(self, written: Sequence[Written], *, now: datetime, node: str) -> None:
        """See `AttemptStorePort.keep_written`."""
        with self._ledger.lock:
            for one in written:
                execution = self._history.get(one.execution_id)
                if (
                    execution is not None
                    and fence.is_held(execution, node)
                    and execution.attempt == one.attempt
                ):
                    output = Output(
                        attempt=one.attempt, stdout=one.stdout, stderr=one.stderr, as_of=now
                    )
                    self._history.keep_output(execution.id, output)

    def adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused | Busy:
        """See `AttemptStorePort.adopt`."""
        with self._ledger.lock:
            known = self._history.with_key(message.scheduler_id, key)
            if known is not None:
                return known
            row = self._ledger.timetable.row(message.scheduler_id)
            if row is None:
                return Refused(f"there is no schedule with the id {message.scheduler_id}")
            if row.schedule.is_system:
                return Refused(f"schedule {row.schedule.name} is the system's own")
            run = claim(row.schedule, key, due=now, now=now, node=node, begins=now)
            adopted = msgspec.structs.replace(
                as_told(run, TaskRef(message.type, message.id)),
                params=message.params_scheduler,
                queue=queue,
                deaths=deaths,
            )
            return self._history.insert(adopted) or Refused(f"the key {key} is taken")

    def _start(
        self, wish: Start, now: datetime, node: str, lease_until: datetime
    ) -> Execution | Refused:
        execution = self._history.get(wish.execution_id)
        if execution is None:
            return Refused(f"execution {wish.execution_id} is unknown", unknown=True)
        after = fence.start(
            execution,
            attempt=wish.attempt,
            nacks=wish.nacks,
            node=node,
            now=now,
            until=lease_until,
        )
        if isinstance(after, str):
            return Refused(after)
        if fence.is_held(execution, node):
            return self._history.change(execution, lease_until=lease_until, version=after.version)
        started = self._history.move(execution, after)
        self._history.record(
            Attempt(execution_id=started.id, attempt=wish.attempt, node=node, started_at=now)
        )
        return started

    def _finish(self, finish: Finish, now: datetime, node: str) -> Recorded:
        execution = self._history.get(finish.execution.id)
        if execution is None:
            return Superseded()
        number = finish.execution.attempt
        if execution.attempt != number or not fence.is_held(execution, node):
            record = self._history.attempts(execution.id).get(number)
            ending = record.ending if record is not None and record.node == node else None
            return finish.repeated(
                ending,
                state=execution.state,
                attempt=execution.attempt,
                last_error=execution.last_error,
            )
        return end(self._ledger, execution, finish, now)

    def _give_up(self, finish: Finish, now: datetime) -> Recorded:
        found = finish.execution
        execution = self._history.get(found.id)
        if (
            execution is None
            or execution.state is not State.RUNNING
            or execution.version != found.version
        ):
            return Superseded()
        return end(self._ledger, execution, finish, now)
