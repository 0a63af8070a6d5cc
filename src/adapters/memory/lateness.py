"""From when on the in-memory ledger takes a message for lost."""

from datetime import datetime, timedelta

from cronhare.domain.execution import STARTABLE, Execution, State
from cronhare.domain.moves import publish
from cronhare.domain.patience import (
    after_copy,
    expected_after_doubt,
    expected_after_resend,
    expected_soon,
)
from cronhare.ports.claims import Graces

from .history import History


def grace_of(execution: Execution, graces: Graces) -> timedelta:
    """Say how late an execution may be in the state that it is in."""
    match execution.state:
        case State.CLAIMED:
            return graces.claimed
        case State.RETRYING:
            return graces.retrying
    return graces.published


def mark_published(history: History, told: Execution, now: datetime) -> None:
    """Note that an attempt's message is in a queue, and from when on it should be read."""
    execution = history.get(told.id)
    if execution is None or execution.attempt != told.attempt or execution.state != told.state:
        return
    if execution.state is State.CLAIMED:
        published = history.move(execution, publish(execution, now=now))
        history.expect(published, max(published.next_attempt_at or now, now))
    elif execution.state in STARTABLE and (execution.next_attempt_at or now) <= now:
        resent = history.change(execution, resends=told.resends + 1)
        history.expect(resent, expected_after_resend(told, now))


def doubt(history: History, execution: Execution, since: datetime, now: datetime) -> None:
    """Take a message for lost that should be in a queue, and was last sent before *since*."""
    expected = history.expected_at(execution)
    if execution.resends:
        last = after_copy(execution.resends - 1, execution.state, since)
        sent_before = expected < last
    else:
        sent_before = execution.published_at is None or execution.published_at < since
    waits = (execution.next_attempt_at or now) > now
    if waits and execution.state is not State.PUBLISHED:
        return  # a retry is looked for at its time in any case
    if sent_before and expected > expected_soon(execution.state, now):
        history.expect(execution, expected_after_doubt(execution.next_attempt_at, now))
