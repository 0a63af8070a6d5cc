"""Failures that a message reports, in memory."""

from datetime import datetime

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import Archived, archive, archive_report
from cronhare.domain.lifecycle.claims import NotToBeRun
from cronhare.domain.lifecycle.failures import Failure, Unproven
from cronhare.domain.lifecycle.transitions import fail_elsewhere
from cronhare.domain.retries.retry import Fail

from .tables import MemoryLedger


def keep_failure(
    ledger: MemoryLedger, failure: Failure, *, now: datetime, node: str
) -> Archived | Unproven | None:
    """Archive a failure; None if the ledger has it already."""
    scheduler_id, ticket = failure.message.scheduler_id, failure.ticket
    if ticket is not None:
        named = (scheduler_id, ticket.execution_id, ticket.attempt)
        archived = {
            (row.scheduler_id, row.execution_id, row.attempts) for row in ledger.archive.values()
        }
        found = ledger.executions.get(ticket.execution_id)
        judged = failure.judge(found, is_archived=lambda: named in archived)
        return _end(ledger, judged, failure, now) if isinstance(judged, Execution) else judged
    if _is_known(ledger, failure):
        return None
    try:
        run = ledger.claim_by_hand(scheduler_id, now=now, node=node, **failure.run)
    except NotToBeRun:
        return ledger.keep(archive_report(failure, now))
    return _end(ledger, run, failure, now)


def _is_known(ledger: MemoryLedger, failure: Failure) -> bool:
    """Look for its execution, and in the archive: the execution may be deleted."""
    named = (failure.message.scheduler_id, failure.key)
    if ledger.executions.with_key(*named) is not None:
        return True
    return any((row.scheduler_id, row.execution_key) == named for row in ledger.archive.values())


def _end(ledger: MemoryLedger, execution: Execution, failure: Failure, now: datetime) -> Archived:
    failed = ledger.executions.write(execution, fail_elsewhere(execution, failure, now=now))
    verdict = Fail(failure.message.failed_reason)
    return ledger.keep(archive(failed, verdict, None, failure.failed_at or now))
