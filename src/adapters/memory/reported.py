"""Failures that a message reports, in memory."""

from datetime import datetime

import msgspec

from cronhare.domain.execution import Execution, may_move
from cronhare.domain.failures import Failure
from cronhare.domain.moves import as_told, claim, fail_elsewhere
from cronhare.domain.retry import Fail
from cronhare.domain.task import TaskRef
from cronhare.ports.records import Archived, Unproven

from .ledger import MemoryLedger


def keep_failure(
    ledger: MemoryLedger, failure: Failure, *, now: datetime, node: str
) -> Archived | Unproven | None:
    """Archive a failure that the ledger has not heard of; None if it has."""
    if (ticketed := _ticketed(ledger, failure)) is not None:
        if failure.ends(ticketed):
            return _end(ledger, ticketed, failure, now)
        known = failure.agrees_with(ticketed) or _has_attempt(ledger, failure)
        return None if known else Unproven(ticketed.state)
    if _is_known(ledger, failure):
        return None
    if failure.is_systems_own:
        return Unproven(None)
    execution = _insert(ledger, failure, now, node)
    if execution is None:
        return ledger.keep(Archived.alone(failure, now))
    return _end(ledger, execution, failure, now)


def _ticketed(ledger: MemoryLedger, failure: Failure) -> Execution | None:
    if failure.ticket is None:
        return None
    found = ledger.history.get(failure.ticket.execution_id)
    return found if found and failure.speaks_of(found) else None


def _has_attempt(ledger: MemoryLedger, failure: Failure) -> bool:
    """Look for the row of that very attempt: its execution may have been replayed since."""
    named = failure.ticket and (failure.ticket.execution_id, failure.ticket.attempt)
    return any((row.execution_id, row.attempts) == named for row in ledger.archive.values())


def _is_known(ledger: MemoryLedger, failure: Failure) -> bool:
    """Look for its execution, and for its row: the execution may be long forgotten."""
    scheduler_id = failure.message.scheduler_id
    if ledger.history.with_key(scheduler_id, failure.key) is not None:
        return True
    forgotten = failure.ticket.execution_id if failure.ticket else None
    return any(
        row.scheduler_id == scheduler_id
        and (row.execution_key == failure.key or row.execution_id == forgotten)
        for row in ledger.archive.values()
    )


def _insert(ledger: MemoryLedger, failure: Failure, now: datetime, node: str) -> Execution | None:
    message = failure.message
    row = ledger.timetable.row(message.scheduler_id)
    if row is None or row.schedule.is_system:
        return None
    run = claim(row.schedule, failure.key, due=now, now=now, node=node, begins=now)
    ran = msgspec.structs.replace(
        as_told(run, TaskRef(message.type, message.id)),
        params=message.params_scheduler,
        attempt=message.retry_count + 1,
    )
    return ledger.history.insert(ran)


def _end(ledger: MemoryLedger, execution: Execution, failure: Failure, now: datetime) -> Archived:
    began, failed = fail_elsewhere(execution, failure, now=now)
    ran = (
        ledger.history.move(execution, began)
        if may_move(execution.state, began.state)
        else execution
    )
    ledger.history.move(ran, failed)
    verdict = Fail(failure.message.failed_reason)
    return ledger.keep(Archived.of(failed, verdict, None, failure.failed_at or now))
