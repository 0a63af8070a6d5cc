"""Failures that a message reports: archived once, with an execution where there can be one."""

from datetime import datetime
from typing import Any, Final

import attrs
from sqlalchemy import Connection, bindparam, insert, select, union_all, update

from cronhare.domain.execution import Execution
from cronhare.domain.failures import Failure
from cronhare.domain.moves import fail_elsewhere
from cronhare.domain.retry import Fail
from cronhare.domain.schedule import CLEANUP_NAME
from cronhare.domain.task import TaskRef
from cronhare.ports.records import Archived, Unproven

from .claiming import NotToBeRun, claim_by_hand, find_by_key
from .rows import BY_IDS, find_executions
from .tables import executions, failed_tasks, schedulers
from .types import UtcDateTime
from .vendor import Vendor

_FAIL: Final = (
    update(executions)
    .where(executions.c.id == bindparam("failed_id"))
    .values(
        state=bindparam("state"),
        deaths=bindparam("deaths"),
        version=bindparam("version"),
        started_at=bindparam("started_at", type_=UtcDateTime),
        finished_at=bindparam("finished_at", type_=UtcDateTime),
        last_error=bindparam("last_error"),
        next_attempt_at=None,
        check_at=None,
    )
)
_OF_SCHEDULE: Final = select(failed_tasks.c.id).where(
    failed_tasks.c.scheduler_id == bindparam("scheduler_id")
)
#: By its own key, and by the execution that its ticket names: each has an index of its own.
_ARCHIVED: Final = union_all(
    _OF_SCHEDULE.where(failed_tasks.c.execution_key == bindparam("key")),
    _OF_SCHEDULE.where(failed_tasks.c.execution_id == bindparam("forgotten")),
)
_OF_ATTEMPT: Final = select(failed_tasks.c.id).where(
    failed_tasks.c.execution_id == bindparam("named"),
    failed_tasks.c.attempts == bindparam("attempt"),
)
_ARCHIVE: Final = insert(failed_tasks)

#: The system's own row, found by its unique name, so that no other is locked on the way. Who holds
#: it is alone in adding rows without an execution, whose keys nothing else would keep apart.
_TURN: Final = select(schedulers.c.id).where(schedulers.c.name == CLEANUP_NAME)


def keep_failure(
    connection: Connection, vendor: Vendor, failure: Failure, *, now: datetime, node: str
) -> Archived | Unproven | None:
    """Archive a failure that the ledger has not heard of; None if it has."""
    if (ticketed := _ticketed(connection, vendor, failure)) is not None:
        if failure.ends(ticketed):
            return _end(connection, ticketed, failure, now)
        known = failure.agrees_with(ticketed) or _has_attempt(connection, failure)
        return None if known else Unproven(ticketed.state)
    if find_by_key(connection, failure.message.scheduler_id, failure.key) is not None:
        return None
    if _is_archived(connection, failure):
        return None
    if failure.is_systems_own:
        return Unproven(None)
    try:
        execution = _claim(connection, vendor, failure, now, node)
    except NotToBeRun:
        connection.execute(vendor.held(_TURN)).all()
        alone = Archived.alone(failure, now)
        return None if _is_archived(connection, failure) else _archive(connection, alone)
    return _end(connection, execution, failure, now)


def _ticketed(connection: Connection, vendor: Vendor, failure: Failure) -> Execution | None:
    if failure.ticket is None:
        return None
    id_ = failure.ticket.execution_id
    found = find_executions(connection, vendor.held(BY_IDS), [id_]).get(id_)
    return found if found and failure.speaks_of(found) else None


def _has_attempt(connection: Connection, failure: Failure) -> bool:
    """Look for the row of that very attempt: its execution may have been replayed since."""
    if failure.ticket is None:
        return False
    asked = {"named": failure.ticket.execution_id, "attempt": failure.ticket.attempt}
    return connection.execute(_OF_ATTEMPT, asked).first() is not None


def _is_archived(connection: Connection, failure: Failure) -> bool:
    """Look for its row: it may stand alone, or its execution was cleaned up since."""
    asked = {
        "forgotten": failure.ticket.execution_id if failure.ticket else None,
        "scheduler_id": failure.message.scheduler_id,
        "key": failure.key,
    }
    return connection.execute(_ARCHIVED, asked).first() is not None


def _claim(
    connection: Connection, vendor: Vendor, failure: Failure, now: datetime, node: str
) -> Execution:
    message = failure.message
    return claim_by_hand(
        connection,
        vendor,
        message.scheduler_id,
        key=failure.key,
        now=now,
        node=node,
        task=TaskRef(message.type, message.id),
        params=message.params_scheduler,
        attempt=message.retry_count + 1,
    )


def _end(connection: Connection, execution: Execution, failure: Failure, now: datetime) -> Archived:
    _, failed = fail_elsewhere(execution, failure, now=now)
    connection.execute(_FAIL, _failed_values(failed))
    verdict = Fail(failure.message.failed_reason)
    return _archive(connection, Archived.of(failed, verdict, None, failure.failed_at or now))


def _failed_values(failed: Execution) -> dict[str, Any]:
    return {
        "failed_id": failed.id,
        "state": failed.state.value,
        "deaths": failed.deaths,
        "version": failed.version,
        "started_at": failed.started_at,
        "finished_at": failed.finished_at,
        "last_error": failed.last_error,
    }


def _archive(connection: Connection, archived: Archived) -> Archived:
    values = attrs.asdict(archived)
    del values["id"], values["problem"]
    inserted = connection.execute(_ARCHIVE, values)
    (id_,) = inserted.inserted_primary_key or (0,)
    return attrs.evolve(archived, id=id_)
