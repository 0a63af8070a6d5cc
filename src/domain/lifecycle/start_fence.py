"""The start fence: whether an attempt may start; a repeated start is answered as the first."""

from datetime import datetime, timedelta
from typing import Final

from ..execution import STARTABLE, Execution, State
from ..messages.nack_count import Nacks
from ..texts.moments import say_moment
from .replay import is_begun_anew
from .transitions import begin, expire, has_expired, is_held, renew

#: An attempt may start so much before its time, as each node measures the ledger's clock for
#: itself (ADR 12). The broker's lanes are late, and never early.
EARLIEST: Final = timedelta(seconds=5)


def start(
    execution: Execution,
    *,
    attempt: int,
    nacks: Nacks | None,
    node: str,
    now: datetime,
    until: datetime,
) -> Execution | str:
    """Give the execution once *node* has started the attempt, or it has expired; or say why not.

    *nacks* come from the attempt's message; None if the system itself asks. *until* is the end of
    the lease. If the node owns the attempt already, its first request got no answer: the lease
    begins anew.
    """
    if execution.problem is not None:
        return f"its row is broken: {execution.problem}"
    if execution.task.is_system and nacks is not None:
        return "it is the system's own, which no message starts"
    if execution.attempt != attempt:
        return f"attempt {execution.attempt} is due, not {attempt}"
    if is_held(execution, node):
        return execution if execution.lease_until == until else renew(execution, until)
    if execution.state not in STARTABLE:
        return f"the execution is {execution.state}"
    if execution.cancel_requested:
        return "its end was asked for"
    if has_expired(execution, now=now):
        return expire(execution, now=now)
    if nacks is not None and (begins := _waits_until(execution, now)) is not None:
        return f"attempt {attempt} waits until {say_moment(begins)}"
    nacked = (
        0
        if nacks is None
        else nacks.since(_in_queue_since(execution), queue=execution.queue, now=now)
    )
    deaths = execution.deaths + nacked
    return begin(execution, deaths=deaths, node=node, lease_until=until, now=now)


def _waits_until(execution: Execution, now: datetime) -> datetime | None:
    """Give the time that the coming attempt waits for; None if it may start.

    A clock that was set back to before the last known event cannot say that an attempt is early; of
    what is replayed only a clock that was ahead says so, since its turn is never so far away.
    """
    begins, known = execution.next_attempt_at, execution.started_at or execution.executed_at
    if begins is None or not known <= now < begins - EARLIEST or is_begun_anew(execution):
        return None
    return begins


def _in_queue_since(execution: Execution) -> datetime | None:
    """Say since when a worker could take the coming attempt's message; None if unknown."""
    match execution:
        case Execution(state=State.RETRYING, next_attempt_at=begins):
            return begins
        case Execution(published_at=datetime() as at, next_attempt_at=begins):
            return max(at, begins or at)
    return None
