"""What people read from the ledger, and what they ask of it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Row, Select, bindparam, func, select, update

from cronhare.domain.diagnosis import LastClaim
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.failures import Failure, Unproven
from cronhare.domain.lifecycle.replay import ALREADY_OVERDUE, replays
from cronhare.domain.lifecycle.transitions import cancel
from cronhare.domain.messages.messages import LARGEST_ID
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerBusy
from cronhare.ports.records import Attempt, ExecutionFilter, Output, QueueLoad, Retention
from cronhare.ports.runner import Captured

from ..claims.manual_claims import claim_by_hand, find_by_key
from ..dialect import InDoubt, Locked
from ..inspection.scheduler_activity import last_claim
from ..mapping.execution_rows import (
    BY_IDS,
    EXECUTION,
    SCHEDULE_NAME,
    executions_of,
    find_executions,
    id_of_display_name,
)
from ..mapping.tolerant_reading import ARCHIVED, ATTEMPT, OUTPUT, TableReader
from ..mapping.transition_columns import write_changes
from ..schema.tables import attempts, executions, failed_tasks, outputs, schedulers
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable
from ..transactions.lock_waits import LockWaitBudget
from .last_runs import last_runs, loads
from .reported_failures import could_archive_another, keep_failure
from .retention import clean_up

_ATTEMPTS = (
    select(attempts)
    .where(attempts.c.execution_id == bindparam("execution_id"))
    .order_by(attempts.c.attempt)
)
_OUTPUTS = (
    select(outputs)
    .where(outputs.c.execution_id == bindparam("execution_id"))
    .order_by(outputs.c.attempt)
)
_COVERING = (
    EXECUTION.where(
        executions.c.scheduler_id == bindparam("scheduler_id"),
        executions.c.state == State.SKIPPED.value,
        executions.c.due_at <= bindparam("instant", type_=UtcDateTime),
        func.coalesce(executions.c.last_due_at, executions.c.due_at)
        >= bindparam("instant", type_=UtcDateTime),
    )
    .order_by(executions.c.id.desc())
    .limit(1)
)
_ARCHIVE = select(failed_tasks).order_by(failed_tasks.c.id.desc())
_UNRESOLVED = (
    select(failed_tasks)
    .where(
        failed_tasks.c.id.in_(bindparam("ids", expanding=True)),
        failed_tasks.c.resolution.is_(None),
    )
    .order_by(failed_tasks.c.id)
)
_RESOLVE = (
    update(failed_tasks)
    .where(failed_tasks.c.id.in_(bindparam("ids", expanding=True)))
    .values(
        resolution=bindparam("how"),
        resolved_at=bindparam("at", type_=UtcDateTime),
        note=bindparam("why"),
        check_at=None,
    )
)


class SqlRecords:
    """Satisfies `RecordsPort`. What has a method here is one transaction, `clean_up` aside."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """See `Database`."""
        self._database = Database(engine, clock)
        self._failures_budget = LockWaitBudget()

    @repeatable
    def executions(self, which: ExecutionFilter) -> Sequence[Execution]:
        """See `RecordsPort.executions`."""
        statement = EXECUTION.order_by(executions.c.id.desc()).limit(which.limit)
        if which.states:
            statement = statement.where(
                executions.c.state.in_([state.value for state in which.states])
            )
        if which.schedule is not None:
            statement = _of_schedule(statement, which.schedule)
        with self._database.read("listing executions") as connection:
            return executions_of(connection, connection.execute(statement))

    @repeatable
    def execution(self, execution_id: int) -> Execution | None:
        """See `RecordsPort.execution`."""
        with self._database.read(f"reading execution {execution_id}") as connection:
            return find_executions(connection, BY_IDS, [execution_id]).get(execution_id)

    @repeatable
    def attempts(self, execution_id: int) -> Sequence[Attempt]:
        """See `RecordsPort.attempts`."""
        with self._database.read(f"reading the attempts of execution {execution_id}") as connection:
            rows = connection.execute(_ATTEMPTS, {"execution_id": _bounded(execution_id)})
            return [Attempt(**_read(ATTEMPT, row)) for row in rows]

    @repeatable
    def output(self, execution_id: int) -> Sequence[Output]:
        """See `RecordsPort.output`."""
        with self._database.read(f"reading the output of execution {execution_id}") as connection:
            rows = connection.execute(_OUTPUTS, {"execution_id": _bounded(execution_id)})
            return [_output(row) for row in rows]

    @repeatable
    def covering(self, scheduler_id: int, *, key: str, instant: datetime) -> Execution | None:
        """See `RecordsPort.covering`."""
        with self._database.read("looking for an instant") as connection:
            own = find_by_key(connection, scheduler_id, key)
            if own is not None:
                return own
            asked = {"scheduler_id": _bounded(scheduler_id), "instant": instant}
            rows = connection.execute(_COVERING, asked)
            return next(iter(executions_of(connection, rows)), None)

    @repeatable
    def last_runs(self, scheduler_ids: Collection[int]) -> Mapping[int, Execution]:
        """See `RecordsPort.last_runs`."""
        with self._database.read("looking for the last runs") as connection:
            return last_runs(connection, scheduler_ids)

    @repeatable
    def queues(self) -> Sequence[QueueLoad]:
        """See `RecordsPort.queues`."""
        with self._database.read("counting what has not ended") as connection:
            return [*loads(connection)]

    @repeatable
    def last_claim(self) -> LastClaim | None:
        """See `RecordsPort.last_claim`."""
        with self._database.read("looking for the newest claim") as connection:
            return last_claim(connection)

    @repeatable
    def archive(
        self, *, ids: Collection[int] | None = None, unresolved: bool = True, limit: int = 100
    ) -> Sequence[Archived]:
        """See `RecordsPort.archive`."""
        statement = _ARCHIVE.limit(limit)
        if ids is not None:
            statement = statement.where(failed_tasks.c.id.in_(map(_bounded, ids)))
        elif unresolved:
            statement = statement.where(failed_tasks.c.resolution.is_(None))
        with self._database.read("listing the archive") as connection:
            return [Archived(**_read(ARCHIVED, row)) for row in connection.execute(statement)]

    def keep_failure(
        self, failure: Failure, *, now: datetime, node: str
    ) -> Archived | Unproven | None:
        """See `RecordsPort.keep_failure`."""
        try:
            with self._failures_budget.limited_wait():
                return self._keep_failure(failure, now=now, node=node)
        except Locked as locked:
            raise LedgerBusy(str(locked)) from locked
        except InDoubt as doubt:
            if could_archive_another(self._database, failure, now=now):
                raise LedgerBusy(str(doubt)) from doubt
            raise

    @repeatable
    def _keep_failure(
        self, failure: Failure, *, now: datetime, node: str
    ) -> Archived | Unproven | None:
        with self._database.write("keeping a reported failure") as connection:
            return keep_failure(connection, self._database.dialect, failure, now=now, node=node)

    @repeatable
    def run_now(
        self, scheduler_id: int, *, key: str, params: str | None, now: datetime, node: str
    ) -> Execution:
        """See `RecordsPort.run_now`."""
        changes: dict[str, Any] = {} if params is None else {"params": params}
        with self._database.write("claiming a manual run") as connection:
            asked_before = find_by_key(connection, scheduler_id, key)
            return asked_before or claim_by_hand(
                connection,
                self._database.dialect,
                scheduler_id,
                key=key,
                now=now,
                node=node,
                begins=now - ALREADY_OVERDUE,
                **changes,
            )

    @repeatable
    def cancel(self, execution_id: int, *, now: datetime) -> State | None:
        """See `RecordsPort.cancel`."""
        with self._database.write(f"cancelling execution {execution_id}") as connection:
            execution = self._held(connection, [execution_id]).get(execution_id)
            if execution is None:
                return None
            after = cancel(execution, now=now)
            write_changes(connection, self._database.dialect, [(execution, after)])
            return after.state

    @repeatable
    def replay(
        self,
        archived_ids: Collection[int],
        *,
        now: datetime,
        apart: timedelta = timedelta(0),
    ) -> Sequence[Execution]:
        """See `RecordsPort.replay`."""
        with self._database.write("replaying") as connection:
            archived = self._unresolved(connection, archived_ids)
            found = self._held(connection, {row.execution_id for row in archived})
            asked = ((row.id, found.get(row.execution_id)) for row in archived)
            replayed = list(replays(asked, now=now, apart=apart))
            if replayed:
                _resolve(connection, [id_ for id_, _, _ in replayed], "replayed", now)
            changed = [(before, after) for _, before, after in replayed]
            write_changes(connection, self._database.dialect, changed)
            return [after for _, after in changed]

    @repeatable
    def discard(self, archived_ids: Collection[int], *, note: str, now: datetime) -> int:
        """See `RecordsPort.discard`."""
        with self._database.write("discarding") as connection:
            ids = [row.id for row in self._unresolved(connection, archived_ids)]
            _resolve(connection, ids, "discarded", now, note)
            return len(ids)

    @repeatable
    def clean_up(
        self, *, now: datetime, retention: Retention, between: Callable[[], None] = lambda: None
    ) -> int:
        """See `RecordsPort.clean_up`."""
        return clean_up(self._database, now=now, retention=retention, between=between)

    def _held(self, connection: Connection, ids: Collection[int]) -> dict[int, Execution]:
        return find_executions(connection, BY_IDS.with_for_update(), ids)

    def _unresolved(self, connection: Connection, ids: Collection[int]) -> Sequence[Archived]:
        statement = _UNRESOLVED.with_for_update()
        rows = connection.execute(statement, {"ids": list(map(_bounded, ids))})
        return [Archived(**_read(ARCHIVED, row)) for row in rows]


def _of_schedule(statement: Select[Any], name: str) -> Select[Any]:
    id_ = id_of_display_name(name)
    if id_ is None:
        named = select(schedulers.c.id).where(schedulers.c.name == name)
        return statement.where(executions.c.scheduler_id.in_(named))
    return statement.where(executions.c.scheduler_id == id_, SCHEDULE_NAME.is_(None))


def _bounded(id_: int) -> int:
    """Give 0, which nothing has, for a number that no id can be."""
    return id_ if 0 < id_ <= LARGEST_ID else 0


def _resolve(
    connection: Connection, ids: Collection[int], how: str, now: datetime, note: str | None = None
) -> None:
    connection.execute(_RESOLVE, {"ids": list(ids), "how": how, "at": now, "why": note})


def _output(row: Row[Any]) -> Output:
    cells, problem = OUTPUT.read(row)
    return Output(
        attempt=cells.attempt,
        stdout=Captured(head=cells.stdout_head, tail=cells.stdout_tail, bytes=cells.stdout_bytes),
        stderr=Captured(head=cells.stderr_head, tail=cells.stderr_tail, bytes=cells.stderr_bytes),
        as_of=cells.as_of,
        problem=problem,
    )


def _read(table: TableReader, row: Row[Any]) -> dict[str, Any]:
    cells, problem = table.read(row)
    return {**{name: getattr(cells, name) for name in row._fields}, "problem": problem}
