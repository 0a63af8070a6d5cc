"""What a task is told of its run, and may answer beside its result."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cronhare.domain.texts.moments import as_span

if TYPE_CHECKING:
    from logging import Logger


class Cancelled(BaseException):
    """Raised in a task that is to end: its time limit, a cancel or a shutdown.

    Like `KeyboardInterrupt` it passes `except Exception`. After 5 s the process is killed.
    """


def _log() -> "Logger":
    from logging import getLogger  # noqa: PLC0415 - for whoever runs tasks, not for all that have them

    return getLogger("cronhare.task")


@dataclass(kw_only=True, slots=True)
class Context:
    """The run that a task is called for, as its first parameter if it is annotated so.

    *due_at* is when the run was due, in UTC, or when it was enqueued; *attempt* counts from 1.
    *key* names the due instant, or is `task-` and what `enqueue` was given: the same in each
    attempt, it makes a good idempotency key. *fence* is larger in each later attempt: a store that
    refuses smaller ones is safe from an attempt that was taken for lost and still writes. *missed*
    counts the due instants that were missed in a downtime and this run makes up for, its own among
    them if that was missed; *previous_success* is the due instant of the schedule's last run before
    this one that succeeded. *cancelled* is true once it is to end.
    """

    due_at: datetime
    attempt: int = 1
    key: str = ""
    fence: int = 0
    missed: int = 0
    previous_success: datetime | None = None
    schedule: str | None = None
    execution_id: int | None = None
    log: "Logger" = field(default_factory=_log)
    cancelled: bool = False
    on_report: Callable[[float, str | None], None] | None = field(default=None, repr=False)

    def progress(self, fraction: float, text: str | None = None) -> None:
        """Report how far the work is. The task's time limit begins anew."""
        if self.on_report is not None:
            self.on_report(fraction, text)


class Snooze:
    """Returned by a task: run it again *after* that time. It costs no attempt."""

    def __init__(self, after: timedelta | str | float) -> None:
        self.seconds = as_span(after).total_seconds()
        if self.seconds < 0:
            raise ValueError(f"a task cannot be put off by {after}")
