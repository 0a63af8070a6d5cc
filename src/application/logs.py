"""What the use cases say to a log: a stable action for machines, a sentence for people."""

import logging

from cronhare.domain.execution import Execution

SUCCESS = 25  # between INFO and WARNING, as in S1
logging.addLevelName(SUCCESS, "SUCCESS")


def say(
    log: logging.Logger,
    level: int,
    action: str,
    text: str,
    about: Execution | None = None,
    *,
    stack: str | None = None,
    **context: object,
) -> None:
    """Log a line. *context* is shown in brackets after type, id and scheduler_id (S1)."""
    if about is not None:
        identity = {
            "type": about.task.type,
            "id": about.task.id,
            "scheduler_id": about.scheduler_id,
        }
        context = {**identity, **context}
    log.log(level, "%s", text, extra={"action": action, "context": context, "stack": stack})
