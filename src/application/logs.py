"""Log lines of the use cases: a stable action for machines, a sentence for people."""

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Here: who reads settings may log, and knows of no execution.
    from cronhare.domain.execution import Execution

SUCCESS = 25  # between INFO and WARNING
logging.addLevelName(SUCCESS, "SUCCESS")


def say(
    log: logging.Logger,
    level: int,
    action: str,
    text: str,
    about: "Execution | None" = None,
    *,
    stack: str | None = None,
    **context: object,
) -> None:
    """Log a line. *context* is shown in brackets.

    A line *about* an execution begins it with type, id and scheduler_id, and ends it with what
    joins the line to the ledger.
    """
    if not log.isEnabledFor(level):
        return
    if about is not None:
        task = {
            "type": about.task.type,
            "id": about.task.id,
            "scheduler_id": about.scheduler_id,
        }
        context = {**task, **context, **place_of(about)}
    log.log(level, "%s", text, extra={"action": action, "context": context, "stack": stack})


def place_of(execution: "Execution") -> dict[str, Any]:
    return {
        "execution": execution.id,
        "attempt": execution.attempt,
        "schedule": execution.schedule_name,
    }
