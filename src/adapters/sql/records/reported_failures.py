"""Failures that a message reports: archived once, with an execution where there can be one."""

from datetime import datetime
from typing import Final

import attrs
from sqlalchemy import Connection, bindparam, select

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import Archived, archive, archive_report
from cronhare.domain.lifecycle.claims import NotToBeRun
from cronhare.domain.lifecycle.failures import Failure, Unproven
from cronhare.domain.lifecycle.transitions import fail_elsewhere
from cronhare.domain.retries.retry import Fail
from cronhare.domain.schedules.schedule import CLEANUP_NAME

from ..claims.manual_claims import claim_by_hand, find_by_key
from ..dialect import Dialect
from ..mapping.archive_rows import ARCHIVE, archive_values
from ..mapping.execution_rows import BY_IDS, find_executions
from ..mapping.transition_columns import write_changes
from ..schema.tables import failed_tasks, schedulers

_ARCHIVED: Final = select(failed_tasks.c.id).where(
    failed_tasks.c.scheduler_id == bindparam("scheduler_id"),
    failed_tasks.c.execution_key == bindparam("key"),
)
_OF_ATTEMPT: Final = select(failed_tasks.c.scheduler_id).where(
    failed_tasks.c.execution_id == bindparam("named"),
    failed_tasks.c.attempts == bindparam("attempt"),
)

#: The system's own row serves as a mutex for adding rows without an execution, whose keys no index
#: keeps unique. It is found by its unique name, so that no other row is locked on the way.
_TURN: Final = select(schedulers.c.id).where(schedulers.c.name == CLEANUP_NAME)


def keep_failure(
    connection: Connection, dialect: Dialect, failure: Failure, *, now: datetime, node: str
) -> Archived | Unproven | None:
    """Archive a failure that the ledger does not know; None if it does."""
    if failure.ticket is not None:
        id_ = failure.ticket.execution_id
        found = find_executions(connection, BY_IDS.with_for_update(), [id_]).get(id_)
        judged = failure.judge(found, is_archived=lambda: _has_attempt(connection, failure))
        if isinstance(judged, Execution):
            return _end(connection, dialect, judged, failure, now)
        return judged
    scheduler_id = failure.message.scheduler_id
    if find_by_key(connection, scheduler_id, failure.key) is not None:
        return None
    if _is_archived(connection, failure):
        return None
    try:
        run = claim_by_hand(connection, dialect, scheduler_id, now=now, node=node, **failure.run)
    except NotToBeRun:
        connection.execute(_TURN.with_for_update()).all()
        alone = archive_report(failure, now)
        return None if _is_archived(connection, failure) else _archive(connection, alone)
    return _end(connection, dialect, run, failure, now)


def _has_attempt(connection: Connection, failure: Failure) -> bool:
    ticket = failure.ticket
    asked = {"named": ticket.execution_id, "attempt": ticket.attempt} if ticket else {}
    return failure.message.scheduler_id in connection.execute(_OF_ATTEMPT, asked).scalars()


def _is_archived(connection: Connection, failure: Failure) -> bool:
    """Look for its row: there may be no execution, or none any more."""
    asked = {"scheduler_id": failure.message.scheduler_id, "key": failure.key}
    return connection.execute(_ARCHIVED, asked).first() is not None


def _end(
    connection: Connection, dialect: Dialect, execution: Execution, failure: Failure, now: datetime
) -> Archived:
    failed = fail_elsewhere(execution, failure, now=now)
    write_changes(connection, dialect, [(execution, failed)])
    verdict = Fail(failure.message.failed_reason)
    return _archive(connection, archive(failed, verdict, None, failure.failed_at or now))


def _archive(connection: Connection, archived: Archived) -> Archived:
    inserted = connection.execute(ARCHIVE, archive_values(archived))
    (id_,) = inserted.inserted_primary_key or (0,)
    return attrs.evolve(archived, id=id_)
