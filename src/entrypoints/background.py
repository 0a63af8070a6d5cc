"""The system's own executions, beside the dispatching: a busy 3:00 waits for no cleanup."""

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime

from cronhare.application.logs import say
from cronhare.domain.execution import Execution
from cronhare.ports.ledger import LedgerUnavailable

log = logging.getLogger(__name__)


class BackgroundExecutor:
    """Hands executions to a thread of their own, and says what came of those that failed."""

    def __init__(self, run: Callable[[Execution, datetime], None], *, executor: Executor) -> None:
        """*run* brings an execution to its end; what it could not end is the reconciler's."""
        self._run = run
        self._executor = executor

    def begin(self, execution: Execution, now: datetime) -> None:
        """Run an execution, and do not wait for it."""
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
