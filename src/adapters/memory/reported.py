"""Failures that a message reports, in memory."""

from datetime import datetime

from cronhare.domain.claims import NotToBeRun
from cronhare.domain.execution import Execution
from cronhare.domain.failures import Failure
from cronhare.domain.messages import Ticket
from cronhare.domain.retry import Fail
from cronhare.domain.task import TaskRef
from cronhare.domain.transitions import fail_elsewhere
from cronhare.ports.records import Archived, Unproven

from .ledger import MemoryLedger


def keep_failure(
    ledger: MemoryLedger, failure: Failure, *, now: datetime, node: str
) -> Archived | Unproven | None:
    """Archive a failure that the ledger has not heard of; None if it has."""
    if failure.ticket is not None:
        return _keep_ours(ledger, failure, failure.ticket, now)
    if _is_known(ledger, failure):
        return None
    try:
        execution = _claim(ledger, failure, now, node)
    except NotToBeRun:
        return ledger.keep(Archived.alone(failure, now))
    return _end(ledger, execution, failure, now)


def _keep_ours(
    ledger: MemoryLedger, failure: Failure, ticket: Ticket, now: datetime
) -> Archived | Unproven | None:
    """Believe what a message says of a run of ours as far as the ledger says so, too."""
    execution = ledger.history.get(ticket.execution_id)
    if execution is not None and not failure.speaks_of(execution):
        execution = None
    if execution is not None and failure.ends(execution):
        return _end(ledger, execution, failure, now)
    if execution is not None and failure.agrees_with(execution):
        return None
    if _has_attempt(ledger, failure.message.scheduler_id, ticket):
        return None
    return Unproven(ticket, None if execution is None else execution.state)


def _has_attempt(ledger: MemoryLedger, scheduler_id: int, ticket: Ticket) -> bool:
    """Look for its row: the execution may have been replayed since, or cleaned up."""
    named = (scheduler_id, ticket.execution_id, ticket.attempt)
    rows = ledger.archive.values()
    return any((row.scheduler_id, row.execution_id, row.attempts) == named for row in rows)


def _is_known(ledger: MemoryLedger, failure: Failure) -> bool:
    """Look for its execution, and for its row: the execution may be long forgotten."""
    named = (failure.message.scheduler_id, failure.key)
    if ledger.history.with_key(*named) is not None:
        return True
    return any((row.scheduler_id, row.execution_key) == named for row in ledger.archive.values())


def _claim(ledger: MemoryLedger, failure: Failure, now: datetime, node: str) -> Execution:
    message = failure.message
    return ledger.claim_by_hand(
        message.scheduler_id,
        key=failure.key,
        now=now,
        node=node,
        task=TaskRef(message.type, message.id),
        params=message.params_scheduler,
        attempt=message.retry_count + 1,
    )


def _end(ledger: MemoryLedger, execution: Execution, failure: Failure, now: datetime) -> Archived:
    failed = ledger.history.write(execution, fail_elsewhere(execution, failure, now=now))
    verdict = Fail(failure.message.failed_reason)
    return ledger.keep(Archived.of(failed, verdict, None, failure.failed_at or now))
