"""A runner without processes: a script decides how each attempt ends."""

import asyncio
from collections.abc import Callable

from cronhare.domain.retries.outcome import Ending, Outcome, TaskError
from cronhare.ports.runner import AttemptResult, Captured, Invocation, StopReason, Written

Script = Callable[[Invocation], Outcome | AttemptResult]


def succeed(invocation: Invocation) -> Outcome:  # noqa: ARG001 - the shape of a script
    """End every attempt well."""
    return Outcome(ending=Ending.SUCCEEDED, exit_code=0)


class ScriptedRunner:
    """Satisfies `TaskRunnerPort`.

    An attempt ends at once as *script* says. If *holds*, it first runs until it is released or
    stopped, so that a test can inspect it, cancel it, or shut down around it; *says* gives what it
    has written to stdout by then.
    """

    def __init__(
        self,
        script: Script = succeed,
        *,
        holds: bool = False,
        says: Callable[[Invocation], str] = lambda _: "",
    ) -> None:
        self._script = script
        self._holds = holds
        self._says = says
        self._held: dict[int, tuple[Invocation, asyncio.Future[StopReason | None]]] = {}

    @property
    def running(self) -> frozenset[int]:
        """The ids of the executions that are held."""
        return frozenset(self._held)

    async def run(self, invocation: Invocation) -> AttemptResult:
        """Run the script. One that raises is a broken test: it is not caught."""
        if self._holds:
            reason = await self._released_or_stopped(invocation)
            if reason is not None:
                error = TaskError(message=f"stopped: {reason.value}")
                return AttemptResult(outcome=Outcome(ending=reason.ending, error=error), pid=1)
        end = self._script(invocation)
        return end if isinstance(end, AttemptResult) else AttemptResult(outcome=end)

    def release(self, execution_id: int) -> None:
        """Let a held attempt end as the script says.

        Raises:
            LookupError: no such execution runs here.
        """
        if not self._end(execution_id, None):
            raise LookupError(f"execution {execution_id} does not run here")

    def stop(self, execution_id: int, reason: StopReason) -> bool:
        return self._end(execution_id, reason)

    def written(self, execution_id: int, *, beyond: int = 0) -> Written | None:
        if execution_id not in self._held:
            return None
        invocation, _ = self._held[execution_id]
        text = self._says(invocation)
        stdout = Captured(head=text, bytes=len(text.encode()))
        written = Written(execution_id=execution_id, attempt=invocation.attempt, stdout=stdout)
        return written if written.mark > beyond else None

    async def close(self) -> None:
        for execution_id in self.running:
            self._end(execution_id, StopReason.INTERRUPTED)

    async def _released_or_stopped(self, invocation: Invocation) -> StopReason | None:
        end: asyncio.Future[StopReason | None] = asyncio.get_running_loop().create_future()
        self._held[invocation.execution_id] = invocation, end
        try:
            return await end
        finally:
            del self._held[invocation.execution_id]

    def _end(self, execution_id: int, reason: StopReason | None) -> bool:
        if execution_id not in self._held:
            return False
        _, end = self._held[execution_id]
        if not end.done():
            end.set_result(reason)
        return True
