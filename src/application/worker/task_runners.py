"""Tasks of several kinds behind one port: commands, requests over HTTP, and reminders."""

import asyncio

import attrs

from cronhare.domain.schedules.task import Task
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
    reminders: TaskRunnerPort

    async def run(self, invocation: Invocation) -> AttemptResult:
        return await self._runner_of(invocation.task).run(invocation)

    def _runner_of(self, task: Task) -> TaskRunnerPort:
        if task.reminder is not None:
            return self.reminders
        return self.commands if task.http is None else self.requests

    def stop(self, execution_id: int, reason: StopReason) -> bool:
        runners = (self.commands, self.requests, self.reminders)
        return any(runner.stop(execution_id, reason) for runner in runners)

    def written(self, execution_id: int, *, beyond: int = 0) -> Written | None:
        return self.commands.written(execution_id, beyond=beyond)

    async def close(self) -> None:
        runners = (self.commands, self.requests, self.reminders)
        await asyncio.gather(*(runner.close() for runner in runners))
