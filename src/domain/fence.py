"""The start fence: whether an attempt may start, and what its repetition comes to."""

from datetime import datetime

import msgspec

from .deaths import Nacks
from .execution import STARTABLE, Execution, State
from .moves import begin
from .task import SYSTEM


def is_held(execution: Execution, node: str) -> bool:
    """Tell whether *node* runs the execution's attempt."""
    return execution.state is State.RUNNING and execution.owner == node


def start(
    execution: Execution,
    *,
    attempt: int,
    nacks: Nacks | None,
    node: str,
    now: datetime,
    until: datetime,
) -> Execution | str:
    """Say how an execution stands once *node* has started the attempt; or why it may not.

    *nacks* is what the attempt's message tells; None if no message asks, but the system itself.
    *until* is the end of the lease. What the node holds already was asked for before, and not
    answered: its lease begins anew.
    """
    if execution.problem is not None:
        return f"its row is broken: {execution.problem}"
    if execution.task.type == SYSTEM and nacks is not None:
        return "it is the system's own, which no message starts"
    if execution.attempt != attempt:
        return f"attempt {execution.attempt} is due, not {attempt}"
    if is_held(execution, node):
        return _extended(execution, until)
    if execution.state not in STARTABLE:
        return f"the execution is {execution.state}"
    if execution.cancel_requested:
        return "its end was asked for"
    nacked = 0 if nacks is None else nacks.since(in_queue_since(execution), now=now)
    deaths = execution.deaths + nacked
    return begin(execution, deaths=deaths, node=node, lease_until=until, now=now)


def in_queue_since(execution: Execution) -> datetime | None:
    """Say from when on a worker could take the message of the coming attempt; None if unknown."""
    match execution:
        case Execution(state=State.RETRYING, next_attempt_at=begins):
            return begins
        case Execution(published_at=datetime() as at, next_attempt_at=begins):
            return max(at, begins or at)
    return None


def _extended(execution: Execution, until: datetime) -> Execution:
    if execution.lease_until == until:
        return execution
    return msgspec.structs.replace(execution, lease_until=until, version=execution.version + 1)
