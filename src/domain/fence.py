"""The start fence: whether an attempt may start, and what its repetition comes to."""

from datetime import datetime

import msgspec

from .execution import STARTABLE, Execution, State
from .moves import begin


def is_held(execution: Execution, node: str) -> bool:
    """Tell whether *node* runs the execution's attempt."""
    return execution.state is State.RUNNING and execution.owner == node


def start(
    execution: Execution, *, attempt: int, deaths: int, node: str, now: datetime, until: datetime
) -> Execution | str:
    """Say how an execution stands once *node* has started the attempt; or why it may not.

    *deaths* is what its message has counted, *until* the end of the lease. What the node holds
    already was asked for before, and not answered: its lease begins anew.
    """
    if execution.problem is not None:
        return f"its row is broken: {execution.problem}"
    if execution.attempt != attempt:
        return f"attempt {execution.attempt} is due, not {attempt}"
    if is_held(execution, node):
        return _extended(execution, until)
    if execution.state not in STARTABLE:
        return f"the execution is {execution.state}"
    if execution.cancel_requested:
        return "its end was asked for"
    return begin(execution, deaths=deaths, node=node, lease_until=until, now=now)


def _extended(execution: Execution, until: datetime) -> Execution:
    if execution.lease_until == until:
        return execution
    return msgspec.structs.replace(execution, lease_until=until, version=execution.version + 1)
