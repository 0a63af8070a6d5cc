"""Runs the system's own executions in a thread, so that a busy 3:00 waits for no cleanup."""

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime

from cronhare.application.logs import say
from cronhare.domain.execution import Execution
from cronhare.ports import LedgerUnavailable

log = logging.getLogger(__name__)


class BackgroundExecutor:
    """Runs executions in a thread of their own, and logs those that fail."""

    def __init__(self, run: Callable[[Execution, datetime], None], *, executor: Executor) -> None:
        """*run* ends an execution; the reconciler repeats what it could not end."""
        self._run = run
        self._executor = executor

    def begin(self, execution: Execution, now: datetime) -> None:
        """Run an execution without waiting for it."""
        self._executor.submit(self._run_to_the_end, execution, now)

    def _run_to_the_end(self, execution: Execution, now: datetime) -> None:
        try:
            self._run(execution, now)
        except LedgerUnavailable as error:
            text = f"{execution.schedule_name} was not done, and will be tried again: {error}"
            say(log, logging.ERROR, "server.unavailable", text)
        except Exception:
            text = f"{execution.schedule_name} met a fault of ours, and will be tried again"
            log.exception("%s", text, extra={"action": "loop.fault"})
