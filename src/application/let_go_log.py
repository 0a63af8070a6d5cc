"""What is logged of executions that were held back, and go on or are replaced."""

import logging

from cronhare.domain.execution import State
from cronhare.ports.claims import LetGo

from .logs import say

log = logging.getLogger(__name__)


def log_let_go(answer: LetGo) -> None:
    """Log what passed a gate, and what was cancelled for it."""
    for one in answer.executions:
        text = f"Execution {one.id} of {one.schedule_name} is held back no more"
        say(log, logging.DEBUG, "gate.passed", text)
    for one in answer.cancelled:
        what = "is cancelled" if one.state is State.CANCELLED else "is asked to end"
        text = f"Execution {one.id} of {one.schedule_name} {what}: a later run takes its place"
        say(log, logging.INFO, "gate.replaced", text)
