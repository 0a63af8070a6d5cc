"""What an execution is called outside (C26 in docs/compatibility.md)."""

from datetime import datetime
from typing import Final

from ..execution import Execution, State
from ..retries.backoff import BackoffType

#: A run that waits for its retry is still `active`, and `failed` is an end (S3.4, S3.5).
_STATUS: Final = {
    State.CLAIMED: "waiting",
    State.HELD: "waiting",
    State.PUBLISHED: "waiting",
    State.RUNNING: "active",
    State.RETRYING: "active",
    State.SUCCEEDED: "completed",
    State.FAILED: "failed",
    State.QUARANTINED: "quarantined",
    State.CANCELLED: "cancelled",
    State.SKIPPED: "skipped",
    State.HANDED_OVER: "handed-over",
}

#: In the lease style `failed` is what is tried again, and the end is `terminated` (S4.1, C37).
_OF_LEASE_STYLE: Final = {State.RETRYING: "failed", State.FAILED: "terminated"}


def outward_status(execution: Execution) -> str:
    """Name the status of an execution.

    The originals contradict each other about `failed`, so the policy decides: a linear backoff is
    the lease style's own.
    """
    if execution.retry is not None and execution.retry.backoff.type is BackoffType.LINEAR:
        return _OF_LEASE_STYLE.get(execution.state, _STATUS[execution.state])
    return _STATUS[execution.state]


def completed_at(execution: Execution) -> datetime | None:
    """Say when an execution succeeded; whatever else ended it, it is not completed (C38)."""
    return execution.finished_at if execution.state is State.SUCCEEDED else None
