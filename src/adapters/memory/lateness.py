"""From when on the in-memory ledger takes a message for lost."""

from datetime import datetime, timedelta

from cronhare.domain.execution import Execution, State
from cronhare.domain.moves import publish
from cronhare.domain.patience import RESENT_WAIT
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


def mark_published(history: History, execution: Execution, now: datetime) -> None:
    """Note that an execution's message is in a queue, and from when on it should be read."""
    expected = history.expected_at(execution)
    if execution.state is State.CLAIMED:
        published = history.move(execution, publish(execution, now=now))
        history.expect(published, max(published.next_attempt_at or now, now))
    elif execution.state is State.RETRYING and expected <= now:
        history.expect(execution, now + RESENT_WAIT)
