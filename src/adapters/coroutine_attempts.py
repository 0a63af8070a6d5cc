"""Attempts that are coroutines of ours, not processes: run until they end, or are stopped."""

import asyncio
from collections.abc import Coroutine
from typing import Final

import attrs

from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.ports.runner import AttemptResult, StopReason

_STOPPED: Final = {
    StopReason.CANCELLED: "cancelled: the answer was not waited for",
    StopReason.INTERRUPTED: "interrupted: the worker shuts down",
    StopReason.WINDING_DOWN: "interrupted: the worker shuts down",
    StopReason.LEASE_LOST: "ended: the worker lost its lease",
}

_Running = tuple[asyncio.Task[AttemptResult], list[StopReason]]


@attrs.define
class CoroutineAttempts:
    """Those that run, by their executions: what `TaskRunnerPort` asks of a runner without children.

    What was asked of a server cannot be taken back: it may have acted, whatever ended the attempt.
    """

    _running: dict[int, _Running] = attrs.field(init=False, factory=dict[int, _Running])

    async def run(
        self, execution_id: int, work: Coroutine[object, object, AttemptResult]
    ) -> AttemptResult:
        working = asyncio.create_task(work)
        reasons: list[StopReason] = []
        self._running[execution_id] = working, reasons
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
            del self._running[execution_id]

    def stop(self, execution_id: int, reason: StopReason) -> bool:
        """See `TaskRunnerPort.stop`; there is nothing to wait for."""
        if execution_id not in self._running:
            return False
        working, reasons = self._running[execution_id]
        reasons.append(reason)
        working.cancel()
        return True

    async def close(self) -> None:
        for working, reasons in self._running.values():
            reasons.append(StopReason.INTERRUPTED)
            working.cancel()
        await asyncio.sleep(0)


def failed(why: str, error_class: ErrorClass) -> AttemptResult:
    """End an attempt badly, for a reason that needs no code."""
    error = TaskError(message=why, error_class=error_class)
    return AttemptResult(outcome=Outcome(ending=Ending.FAILED, error=error))


def _stopped(reason: StopReason) -> AttemptResult:
    error = TaskError(message=_STOPPED[reason])
    return AttemptResult(outcome=Outcome(ending=reason.ending, error=error))
