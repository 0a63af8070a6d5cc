"""The archive: what failed for good, as people read it, replay it and discard it."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs
import msgspec
from sqlalchemy import ColumnElement, Connection, Table, bindparam, func, or_, select, update

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import (
    UNRESOLVED,
    Archived,
    Failure,
    FailureFilter,
    Unproven,
    archive,
    archive_report,
    fail_elsewhere,
)
from cronhare.domain.lifecycle.claims import (
    DEFAULT_ALLOWANCE,
    REPLAYED,
    Allowance,
    NotToBeRun,
    replays,
)
from cronhare.domain.retries.outcome import ErrorClass
from cronhare.domain.retries.retry import Fail
from cronhare.domain.schedules.schedule import CLEANUP_NAME
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports import LedgerBusy

from ..database import StorePart, repeatable, repeatable_unless_locked
from ..dialect import Locked
from ..tables.executions import BY_IDS, exactly, find_executions, known_id
from ..tables.tables import IDS, failed_tasks, schedulers
from ..tables.types import Position, moment_of
from ..writing import ARCHIVE, archive_values, read_archived, write_changes

_ROW: Final = failed_tasks.c
_ARCHIVE = select(failed_tasks).order_by(_ROW.id.desc())
_THESE = _ROW.id.in_(IDS)
_BY_IDS = _ARCHIVE.where(_THESE)
_COUNT = select(func.count()).select_from(failed_tasks)
_UNRESOLVED = (
    select(failed_tasks)
    .where(_THESE, _ROW.resolution.is_(None))
    .order_by(_ROW.id)
    .with_for_update()
)
_RESOLVE = (
    update(failed_tasks)
    .where(_THESE)
    .values(
        resolution=bindparam("how"),
        resolved_at=moment_of("at"),
        note=bindparam("why"),
        check_at=None,
    )
)
_ARCHIVED = select(_ROW.id).where(
    _ROW.scheduler_id == bindparam("scheduler_id"), _ROW.execution_key == bindparam("key")
)
_OF_ATTEMPT = select(_ROW.scheduler_id).where(
    _ROW.execution_id == bindparam("named"), _ROW.attempts == bindparam("attempt")
)

#: The system's own row serves as a mutex for adding rows without an execution, whose keys no index
#: keeps unique. It is found by its unique name, so that no other row is locked on the way.
_TURN = select(schedulers.c.id).where(schedulers.c.name == CLEANUP_NAME)


class ArchiveRecords(StorePart):
    """The part of `RecordsPort` that is about the archive."""

    @repeatable
    def archive(
        self, which: FailureFilter = UNRESOLVED, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Archived]:
        statement = _ARCHIVE.where(*those_of(which)).limit(limit)
        if before is not None:
            statement = statement.where(_ROW.id < before)
        with self._database.read("listing the archive") as connection:
            return read_archived(connection.execute(statement))

    @repeatable
    def archived(self, ids: Collection[int]) -> Sequence[Archived]:
        with self._database.read("reading the archive") as connection:
            rows = connection.execute(_BY_IDS, {"ids": list(map(known_id, ids))})
            return read_archived(rows)

    @repeatable
    def count_failures(self, which: FailureFilter) -> int:
        with self._database.read("counting in the archive") as connection:
            statement = _COUNT.where(*those_of(which))
            return connection.scalar(statement) or 0

    def keep_failure(
        self, failure: Failure, *, now: datetime, node: str
    ) -> Archived | Unproven | None:
        @repeatable_unless_locked
        def keep() -> Archived | Unproven | None:
            with self._database.write("keeping a reported failure") as connection:
                return _keep(connection, failure, now=now, node=node)

        try:
            return keep()
        except Locked as locked:
            raise LedgerBusy(str(locked)) from locked

    @repeatable
    def replay(
        self,
        archived_ids: Collection[int],
        *,
        now: datetime,
        allowance: Allowance = DEFAULT_ALLOWANCE,
        head_start: timedelta = timedelta(0),
    ) -> Sequence[Execution]:
        with self._database.write("replaying") as connection:
            archived = self._unresolved(connection, archived_ids)
            found = find_executions(
                connection, BY_IDS.with_for_update(), {row.execution_id for row in archived}
            )
            asked = ((row.id, found.get(row.execution_id)) for row in archived)
            replayed = list(replays(asked, now=now, allowance=allowance, head_start=head_start))
            if replayed:
                resolve(connection, [id_ for id_, _, _ in replayed], REPLAYED, now)
            changed = [(before, after) for _, before, after in replayed]
            write_changes(connection, changed)
            return [after for _, after in changed]

    @repeatable
    def discard(self, archived_ids: Collection[int], *, note: str, now: datetime) -> int:
        with self._database.write("discarding") as connection:
            ids = [row.id for row in self._unresolved(connection, archived_ids)]
            resolve(connection, ids, "discarded", now, note)
            return len(ids)

    def _unresolved(self, connection: Connection, ids: Collection[int]) -> Sequence[Archived]:
        rows = connection.execute(_UNRESOLVED, {"ids": list(map(known_id, ids))})
        return read_archived(rows)


def resolve(
    connection: Connection, ids: Collection[int], how: str, now: datetime, note: str | None = None
) -> None:
    """Mark unresolved rows, which are locked, as resolved: *how*, and why."""
    connection.execute(_RESOLVE, {"ids": list(ids), "how": how, "at": now, "why": note})


# Failures that a message reports


def _keep(
    connection: Connection, failure: Failure, *, now: datetime, node: str
) -> Archived | Unproven | None:
    from ..claims.plans import claim_by_hand, find_by_key  # noqa: PLC0415 - lists do without

    scheduler_id = failure.message.scheduler_id
    if (ticket := failure.ticket) is not None:
        id_ = ticket.execution_id
        found = find_executions(connection, BY_IDS.with_for_update(), [id_]).get(id_)
        asked = {"named": id_, "attempt": ticket.attempt}
        judged = failure.judge(
            found, is_archived=lambda: scheduler_id in connection.scalars(_OF_ATTEMPT, asked)
        )
        if isinstance(judged, Execution):
            return _end(connection, judged, failure, now)
        return judged
    if find_by_key(connection, scheduler_id, failure.key) is not None:
        return None
    if _is_archived(connection, failure):
        return None
    try:
        run = claim_by_hand(connection, scheduler_id, now=now, node=node, **failure.run)
    except NotToBeRun:
        connection.execute(_TURN.with_for_update()).all()
        alone = archive_report(failure, now)
        return None if _is_archived(connection, failure) else _archive(connection, alone)
    return _end(connection, run, failure, now)


def _is_archived(connection: Connection, failure: Failure) -> bool:
    asked = {"scheduler_id": failure.message.scheduler_id, "key": failure.key}
    return connection.execute(_ARCHIVED, asked).first() is not None


def _end(connection: Connection, execution: Execution, failure: Failure, now: datetime) -> Archived:
    failed = fail_elsewhere(execution, failure, now=now)
    write_changes(connection, [(execution, failed)])
    verdict = Fail(failure.message.failed_reason)
    return _archive(connection, archive(failed, verdict, None, failure.failed_at or now))


def _archive(connection: Connection, archived: Archived) -> Archived:
    inserted = connection.execute(ARCHIVE, archive_values(archived))
    (id_,) = inserted.inserted_primary_key or (0,)
    return attrs.evolve(archived, id=id_)


# A filter, asked of the columns


def those_of(which: FailureFilter) -> Iterator[ColumnElement[bool]]:
    """Give the conditions of the rows that a filter takes."""
    equal = (
        (_ROW.schedule_name, which.schedule),
        (_ROW.task_type, which.type),
        (_ROW.queue, which.queue),
    )
    yield from (exactly(column, wanted) for column, wanted in equal if wanted is not None)
    if which.execution_id is not None:
        yield _ROW.execution_id == which.execution_id
    if which.error_class is not None:
        yield has_class(which.error_class)
    if which.code is not None:
        code = msgspec.json.encode(which.code).decode()
        yield Position(_ROW.error, f'"code":{code}') > 0
    if which.reason is not None:
        yield or_(Position(_ROW.failed_reason, which.reason) > 0, _says(which.reason))
    if which.task is not None:
        yield or_(*rows_of_task(failed_tasks, which.task, which.numbers))
    if which.kind is not None:
        is_failed = _ROW.kind == State.FAILED.value
        yield is_failed if which.kind is State.FAILED else ~is_failed
    if which.since is not None:
        yield _ROW.failed_at >= which.since
    if which.until is not None:
        yield _ROW.failed_at < which.until
    if which.unresolved:
        yield _ROW.resolution.is_(None)


# The column of an error is JSON, `TaskError.as_json`. No text in it holds what is looked for here:
# quotes are escaped.


def has_class(error_class: ErrorClass) -> ColumnElement[bool]:
    """Ask whether an error is of this class."""
    return Position(_ROW.error, f'"error_class":"{error_class.value}"') > 0


def _says(part: str) -> ColumnElement[bool]:
    """Ask whether the message of an error has this part; its code and its stack do not count."""
    begins, said = '"message":"', msgspec.json.encode(part).decode()[1:-1]
    rest = func.substr(_ROW.error, Position(_ROW.error, begins) + len(begins))
    found = Position(rest, said)
    # Asked first, as nearly no row has it anywhere.
    has_it = Position(_ROW.error, said) > 0
    return has_it & (found > 0) & (found < Position(rest, '","'))


def rows_of_task(
    table: Table, task: str, numbers: Iterable[TaskRef]
) -> Iterator[ColumnElement[bool]]:
    """Give the conditions of which each row of a task has one or more: see `has_task`.

    Each is a range of an index of executions.
    """
    row = table.c
    yield row.task_name == task
    if (ref := TaskRef.read(task)) is not None:
        yield (row.task_type == ref.type) & (row.task_id == ref.id)
    for ref in numbers:
        # Those that have the name, and are found by it as well, keep a list of the newest short.
        is_nameless = func.coalesce(row.task_name, task) == task
        yield (row.task_type == ref.type) & (row.task_id == ref.id) & is_nameless
