"""Records in memory: what people read of the ledger, and what they change."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from operator import attrgetter

import attrs

from cronhare.domain.diagnosis.overdue import LastClaim
from cronhare.domain.execution import ENDED_WITHOUT_RESULT, REPLAYABLE, UNFINISHED, Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.failure_filter import UNRESOLVED, FailureFilter
from cronhare.domain.lifecycle.failures import Failure, Unproven
from cronhare.domain.lifecycle.replay import (
    DEFAULT_ALLOWANCE,
    REPLAYED,
    Allowance,
    begins_by_hand,
    replays,
)
from cronhare.domain.lifecycle.transitions import cancel
from cronhare.domain.retries.redeliveries import KEPT_FOR
from cronhare.domain.schedules.boot import LONGEST_AGO
from cronhare.domain.schedules.keys import BOOT, DUE
from cronhare.domain.schedules.retention import LATELY, by_class
from cronhare.domain.schedules.standalone import began_to_stay_alive
from cronhare.ports.records import (
    Attempt,
    ExecutionFilter,
    Output,
    QueueLoad,
    Reported,
    Retention,
    Unheard,
)

from .replays import forget_replays
from .reported import keep_failure
from .retry_limits import forget_idle_limits
from .tables import MemoryLedger


class MemoryRecords:
    """Satisfies `RecordsPort`. Each public method is one transaction."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._executions = ledger.executions

    def executions(self, which: ExecutionFilter) -> Sequence[Execution]:
        with self._ledger.lock:
            fitting = (
                execution
                for execution in self._executions.newest_first()
                if which.schedule in {None, execution.schedule_name}
                and which.concurrency_key in {None, execution.concurrency_key}
                and (not which.states or execution.state in which.states)
                and (not which.stays_alive or _stays_alive(execution))
                and (which.before is None or execution.id < which.before)
                and (which.since is None or execution.executed_at >= which.since)
                and (which.until is None or execution.executed_at < which.until)
                and execution.task.is_meant(
                    which.task, name=execution.task_name, numbers=which.numbers
                )
            )
            return tuple(islice(fitting, which.limit))

    def execution(self, execution_id: int) -> Execution | None:
        with self._ledger.lock:
            return self._executions.get(execution_id)

    def attempts(self, execution_id: int) -> Sequence[Attempt]:
        with self._ledger.lock:
            return tuple(self._executions.attempts(execution_id).values())

    def output(self, execution_id: int, *, since: int = 1) -> Sequence[Output]:
        with self._ledger.lock:
            outputs = self._executions.outputs(execution_id)
            return tuple(output for output in outputs if output.attempt >= since)

    def unheard(self, *, limit: int) -> Sequence[Unheard]:
        with self._ledger.lock:
            return [self._ledger.unheard[topic] for topic in sorted(self._ledger.unheard)][:limit]

    def reported(self, execution_ids: Collection[int]) -> Sequence[Reported]:
        with self._ledger.lock:
            return [
                Reported(
                    execution_id=id_,
                    attempt=output.attempt,
                    report=output.report,
                    bytes=output.stdout.bytes + output.stderr.bytes,
                    as_of=output.as_of,
                )
                for id_ in sorted(set(execution_ids))
                for output in self._executions.outputs(id_)
            ]

    def covering(self, scheduler_id: int, *, key: str, instant: datetime) -> Execution | None:
        with self._ledger.lock:
            own = self._executions.with_key(scheduler_id, key)
            skipped = self._skipped_over(scheduler_id, instant)
            return own or max(skipped, key=attrgetter("id"), default=None)

    def last_runs(self, scheduler_ids: Collection[int]) -> Mapping[int, Execution]:
        with self._ledger.lock:
            runs = [
                execution
                for execution in self._executions.newest_first()
                if execution.state is not State.SKIPPED and execution.scheduler_id in scheduler_ids
            ]
            runs.sort(key=_age)
            return {execution.scheduler_id: execution for execution in runs}

    def queues(self) -> Sequence[QueueLoad]:
        with self._ledger.lock:
            due = defaultdict[tuple[str, State], list[datetime]](list)
            for execution in self._executions.in_states(UNFINISHED):
                due[execution.queue, execution.state].append(execution.due_at)
            return [
                QueueLoad(queue=queue, state=state, executions=len(at), oldest_due_at=min(at))
                for (queue, state), at in due.items()
            ]

    def last_claim(self) -> LastClaim | None:
        with self._ledger.lock:
            claims = (
                LastClaim(execution.executed_at, execution.container_id)
                for execution in self._executions.newest_first()
                if execution.key.startswith(DUE)
            )
            return next(claims, None)

    def archive(
        self,
        which: FailureFilter = UNRESOLVED,
        *,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[Archived]:
        with self._ledger.lock:
            return tuple(islice(self._failures(which, before), limit))

    def archived(self, ids: Collection[int]) -> Sequence[Archived]:
        with self._ledger.lock:
            found = (self._ledger.archive.get(id_) for id_ in sorted(set(ids), reverse=True))
            return tuple(row for row in found if row is not None)

    def count_failures(self, which: FailureFilter) -> int:
        with self._ledger.lock:
            return sum(1 for _ in self._failures(which))

    def keep_failure(
        self, failure: Failure, *, now: datetime, node: str
    ) -> Archived | Unproven | None:
        with self._ledger.lock:
            return keep_failure(self._ledger, failure, now=now, node=node)

    def run_now(
        self,
        scheduler_id: int,
        *,
        key: str,
        params: str | None,
        now: datetime,
        node: str,
        head_start: timedelta = timedelta(0),
    ) -> Execution:
        with self._ledger.lock:
            changes = {} if params is None else {"params": params}
            return self._ledger.claim_by_hand(
                scheduler_id,
                key=key,
                alone=True,
                now=now,
                node=node,
                begins=begins_by_hand(now, head_start=head_start),
                **changes,
            )

    def cancel(self, execution_id: int, *, now: datetime) -> State | None:
        with self._ledger.lock:
            execution = self._executions.get(execution_id)
            if execution is None:
                return None
            return self._executions.write(execution, cancel(execution, now=now)).state

    def replay(
        self,
        archived_ids: Collection[int],
        *,
        now: datetime,
        allowance: Allowance = DEFAULT_ALLOWANCE,
        head_start: timedelta = timedelta(0),
    ) -> Sequence[Execution]:
        with self._ledger.lock:
            unresolved = {row.id: row for row in self._unresolved(archived_ids)}
            asked = (
                (id_, self._executions.get(unresolved[id_].execution_id))
                for id_ in sorted(unresolved)
            )
            replayed: list[Execution] = []
            again = replays(asked, now=now, allowance=allowance, head_start=head_start)
            for id_, before, after in again:
                self._resolve(unresolved[id_], REPLAYED, now)
                replayed.append(self._executions.write(before, after))
            return replayed

    def discard(self, archived_ids: Collection[int], *, note: str, now: datetime) -> int:
        with self._ledger.lock:
            unresolved = self._unresolved(archived_ids)
            for archived in unresolved:
                self._resolve(archived, "discarded", now, note)
            return len(unresolved)

    def clean_up(
        self, *, now: datetime, retention: Retention, between: Callable[[], None] = lambda: None
    ) -> int:
        """See `RecordsPort.clean_up`: one step."""
        with self._ledger.lock:
            old = {each.id: each for each in self._outlived(now, retention)}
            for execution in old.values():
                self._executions.delete(execution)
            forget_idle_limits(self._ledger, now)
            forget_replays(self._ledger, now - retention.others)
            for entry in [*self._ledger.audit.values()]:
                if entry.at < now - retention.audit:
                    del self._ledger.audit[entry.id]
            for notes in self._ledger.holds.values():
                for node in [n for n, hold in notes.items() if hold.at < now - KEPT_FOR]:
                    del notes[node]
        between()
        return len(old)

    def _skipped_over(self, scheduler_id: int, instant: datetime) -> Iterator[Execution]:
        for execution in self._executions.in_states({State.SKIPPED}):
            last = execution.last_due_at or execution.due_at
            if execution.scheduler_id == scheduler_id and execution.due_at <= instant <= last:
                yield execution

    def _failures(self, which: FailureFilter, before: int | None = None) -> Iterator[Archived]:
        for row in reversed(self._ledger.archive.values()):
            if which.takes(row) and (before is None or row.id < before):
                yield row

    def _unresolved(self, archived_ids: Collection[int]) -> list[Archived]:
        rows = (self._ledger.archive.get(id_) for id_ in dict.fromkeys(archived_ids))
        return [row for row in rows if row is not None and row.resolution is None]

    def _resolve(
        self, archived: Archived, resolution: str, now: datetime, note: str | None = None
    ) -> None:
        self._ledger.archive[archived.id] = attrs.evolve(
            archived, resolution=resolution, resolved_at=now, note=note, check_at=None
        )

    def _surplus_of_classes(self, now: datetime) -> Iterator[Execution]:
        """Yield what its class keeps no more of."""
        rows = self._ledger.schedules.rows()
        classes = by_class(
            (row.id, row.source, row.draft.retention) for row in rows if row.draft.retention
        )
        for kept in classes:
            done = frozenset({State.SUCCEEDED})
            for states, most in ((done, kept.keep.done), (REPLAYABLE, kept.keep.failed)):
                newest = (
                    each
                    for each in self._executions.newest_first()
                    if each.state in states
                    and each.scheduler_id in kept.schedulers
                    and not _is_of_a_boot(each, now)
                )
                surplus = () if most is None else islice(newest, most, None)
                yield from (each for each in surplus if _has_outlived(each, now - LATELY))

    def _outlived(self, now: datetime, retention: Retention) -> Iterator[Execution]:
        newer: Counter[int] = Counter()
        for execution in self._executions.newest_first():
            if execution.state is State.SUCCEEDED:
                newer[execution.scheduler_id] += (is_counted := not _is_of_a_boot(execution, now))
                is_surplus = is_counted and newer[execution.scheduler_id] > retention.completed_rows
                if is_surplus or _has_outlived(execution, now - retention.completed):
                    yield execution
        awaiting = {row.execution_id for row in self._ledger.archive.values() if not row.resolution}
        for execution in self._executions.in_states(REPLAYABLE):
            if execution.id not in awaiting and _has_outlived(execution, now - retention.failed):
                yield execution
        for execution in self._surplus_of_classes(now):
            if execution.id not in awaiting:
                yield execution
        for execution in self._executions.in_states(ENDED_WITHOUT_RESULT):
            if _has_outlived(execution, now - retention.others):
                yield execution


def _stays_alive(execution: Execution) -> bool:
    return began_to_stay_alive(key=execution.key, queue=execution.queue)


def _age(execution: Execution) -> tuple[bool, datetime, int]:
    """Sort by when a run ended; those that have not ended come last."""
    ended = execution.finished_at
    return (ended is None, ended or execution.executed_at, execution.id)


def _is_of_a_boot(execution: Execution, now: datetime) -> bool:
    """Tell whether this run may be asked for again at the same boot."""
    return execution.key.startswith(BOOT) and not _has_outlived(execution, now - LONGEST_AGO)


def _has_outlived(execution: Execution, limit: datetime) -> bool:
    return (execution.finished_at or execution.executed_at) < limit
