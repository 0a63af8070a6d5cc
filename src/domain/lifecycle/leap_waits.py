"""Waits that a clock set which was ahead, and was set right since: they last as long as that."""

from datetime import datetime, timedelta

import msgspec

from ..execution import Execution
from ..retries.leaps import was_ahead
from .replay import is_begun_anew


def regain(execution: Execution, *, ended_at: datetime | None, now: datetime) -> Execution | None:
    """Let one that waits begin from now on as it was to begin then; None if no clock keeps it.

    *ended_at* is when the attempt before ended. No attempt begins early by this: a wait counts as
    set by such a clock only if the moment from which it lasts is still to come, and all of it is
    waited from now on. One that is longer than the clock was ahead stays: it would look the same
    afterwards, and be cut again and again.
    """
    begins = execution.next_attempt_at
    if begins is None or not was_ahead(begins, now):
        return None
    if is_begun_anew(execution):
        return _beginning(execution, now)
    since = execution.executed_at if execution.started_at is None else ended_at
    if since is None or not was_ahead(since, now):
        return None
    wait = begins - since
    return _beginning(execution, now + wait) if timedelta(0) <= wait < since - now else None


def _beginning(execution: Execution, at: datetime) -> Execution:
    return msgspec.structs.replace(execution, next_attempt_at=at, check_at=at)
