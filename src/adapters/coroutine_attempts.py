"""Attempts that are coroutines of ours, not processes: run until they end, or are stopped."""

import abc
import asyncio

from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.ports.runner import AttemptResult, Invocation, StopReason, Written

_Running = tuple[asyncio.Task[AttemptResult], list[StopReason]]


class CoroutineRunner(abc.ABC):
    """What `TaskRunnerPort` asks of a runner without children: an attempt is a coroutine.

    What was asked of a server cannot be taken back: it may have acted, whatever ended the attempt.
    """

    def __init__(self) -> None:
        self._running: dict[int, _Running] = {}

    @abc.abstractmethod
    async def _attempt(self, invocation: Invocation) -> AttemptResult:
        """Run one attempt to its end."""

    async def run(self, invocation: Invocation) -> AttemptResult:
        working = asyncio.create_task(self._attempt(invocation))
        reasons: list[StopReason] = []
        self._running[invocation.execution_id] = working, reasons
        try:
            return await working
        except asyncio.CancelledError:
            if not reasons:  # it is we who are cancelled
                working.cancel()
                raise
            # A lost lease overrides any other reason.
            lost = StopReason.LEASE_LOST in reasons
            return _stopped(StopReason.LEASE_LOST if lost else reasons[0])
        finally:
            del self._running[invocation.execution_id]

    def stop(self, execution_id: int, reason: StopReason) -> bool:
        if execution_id not in self._running:
            return False
        working, reasons = self._running[execution_id]
        reasons.append(reason)
        working.cancel()
        return True

    def written(self, execution_id: int, *, beyond: int = 0) -> Written | None:  # noqa: ARG002
        """See `TaskRunnerPort.written`: before its end it has none."""
        return None

    async def close(self) -> None:
        for working, reasons in self._running.values():
            reasons.append(StopReason.INTERRUPTED)
            working.cancel()
        await asyncio.sleep(0)


def failed(why: str, error_class: ErrorClass) -> AttemptResult:
    error = TaskError(message=why, error_class=error_class)
    return AttemptResult(outcome=Outcome(ending=Ending.FAILED, error=error))


def _stopped(reason: StopReason) -> AttemptResult:
    waited = ": the answer was not waited for" if reason is StopReason.CANCELLED else ""
    error = TaskError(message=f"{reason.said}{waited}")
    return AttemptResult(outcome=Outcome(ending=reason.ending, error=error))
