"""The archive: what failed for good, as people read it, replay it and discard it."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, func, select, update

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.failure_filter import UNRESOLVED, FailureFilter
from cronhare.domain.lifecycle.failures import Failure, Unproven
from cronhare.domain.lifecycle.replay import DEFAULT_ALLOWANCE, REPLAYED, Allowance, replays
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.ports.ledger import LedgerBusy

from ..dialect import Locked
from ..mapping.archive_rows import read_archived
from ..mapping.execution_rows import BY_IDS, find_executions
from ..mapping.transition_columns import write_changes
from ..schema.tables import failed_tasks
from ..schema.types import UtcDateTime
from ..transactions.database import StorePart, repeatable, repeatable_unless_locked
from .failure_conditions import those_of

_ARCHIVE = select(failed_tasks).order_by(failed_tasks.c.id.desc())
_THESE = failed_tasks.c.id.in_(bindparam("ids", expanding=True))
_BY_IDS = _ARCHIVE.where(_THESE)
_COUNT = select(func.count()).select_from(failed_tasks)
_UNRESOLVED = (
    select(failed_tasks)
    .where(_THESE, failed_tasks.c.resolution.is_(None))
    .order_by(failed_tasks.c.id)
    .with_for_update()
)
_RESOLVE = (
    update(failed_tasks)
    .where(_THESE)
    .values(
        resolution=bindparam("how"),
        resolved_at=bindparam("at", type_=UtcDateTime),
        note=bindparam("why"),
        check_at=None,
    )
)


class ArchiveRecords(StorePart):
    """The part of `RecordsPort` that is about the archive."""

    @repeatable
    def archive(
        self,
        which: FailureFilter = UNRESOLVED,
        *,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[Archived]:
        statement = _ARCHIVE.where(*those_of(which, self._database.dialect)).limit(limit)
        if before is not None:
            statement = statement.where(failed_tasks.c.id < before)
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
            statement = _COUNT.where(*those_of(which, self._database.dialect))
            return connection.scalar(statement) or 0

    def keep_failure(
        self, failure: Failure, *, now: datetime, node: str
    ) -> Archived | Unproven | None:
        from .reported_failures import keep_failure  # noqa: PLC0415 - lists do without

        @repeatable_unless_locked
        def keep() -> Archived | Unproven | None:
            with self._database.write("keeping a reported failure") as connection:
                return keep_failure(connection, self._database.dialect, failure, now=now, node=node)

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
            write_changes(connection, self._database.dialect, changed)
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


def known_id(id_: int) -> int:
    """Give 0, which nothing has, for a number that no id can be."""
    return id_ if 0 < id_ <= LARGEST_ID else 0


def resolve(
    connection: Connection, ids: Collection[int], how: str, now: datetime, note: str | None = None
) -> None:
    """Mark unresolved rows, which are locked, as resolved: *how*, and why."""
    connection.execute(_RESOLVE, {"ids": list(ids), "how": how, "at": now, "why": note})
