"""Tasks of several kinds behind one port: commands are processes, requests are asked for."""

import asyncio

import attrs

from cronhare.ports.runner import (
    AttemptResult,
    Invocation,
    StopReason,
    TaskRunnerPort,
    Written,
)


@attrs.frozen
class TaskRunners:
    """Satisfies `TaskRunnerPort` by the runner of a task's kind."""

    commands: TaskRunnerPort
    requests: TaskRunnerPort

    async def run(self, invocation: Invocation) -> AttemptResult:
        """See `TaskRunnerPort.run`."""
        runner = self.commands if invocation.task.http is None else self.requests
        return await runner.run(invocation)

    def stop(self, execution_id: int, reason: StopReason) -> bool:
        """See `TaskRunnerPort.stop`."""
        stopped = self.commands.stop(execution_id, reason)
        return self.requests.stop(execution_id, reason) or stopped

    def written(self, execution_id: int, *, beyond: int = 0) -> Written | None:
        """See `TaskRunnerPort.written`."""
        return self.commands.written(execution_id, beyond=beyond)

    async def close(self) -> None:
        """See `TaskRunnerPort.close`."""
        await asyncio.gather(self.commands.close(), self.requests.close())
