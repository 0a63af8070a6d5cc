"""Asking a task's own strategy how long its retry waits, in a process of its own."""

import logging
import re
import sys
from datetime import datetime, timedelta
from typing import Any, Final

import attrs
import msgspec

from cronhare.domain.execution import Execution
from cronhare.domain.retries.outcome import Ending, Outcome, TaskError, asked_wait
from cronhare.domain.retries.policy import CEILING_MS
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.texts.printable import echo
from cronhare.ports.runner import Invocation, TaskRunnerPort

from ..logs import say

log = logging.getLogger(__name__)

#: How long a strategy may take; most of it is the start of the interpreter on a busy machine.
TIMEOUT: Final = timedelta(seconds=10)

_MS: Final = timedelta(milliseconds=1)
_WAIT: Final = re.compile(r"wait ([0-9]{1,12}) ms")
_NO_WAIT: Final = "no wait of its own"


async def ask_strategy(
    runner: TaskRunnerPort,
    invocation: Invocation,
    execution: Execution,
    outcome: Outcome,
    *,
    policy: timedelta,
    now: datetime,
) -> timedelta | None:
    """Give the wait that the strategy of an *invocation*'s task wants, or None for the *policy*'s.

    Whatever the function does, it costs its own task alone: it has a time limit, its memory and its
    user are not the worker's. One that fails, takes too long or answers nonsense is logged.
    """
    task = invocation.task
    strategy = task.policy.strategy
    if strategy is None:
        return None
    asking = Task(
        name=task.name,
        ref=TaskRef("strategy", task.ref.id),
        command=(sys.executable, "-m", "cronhare.strategy", str(strategy)),
        timeout=TIMEOUT,
        cwd=strategy.folder,
        env=task.env,
        pass_env=task.pass_env,
        user=task.user,
    )
    given = _given(task, execution, outcome, policy_wait=policy, now=now)
    ran = await runner.run(attrs.evolve(invocation, task=asking, params=given, topic=None))
    said, problem = ran.stdout.head.strip(), ""
    wait = _WAIT.fullmatch(said)
    if ran.outcome.ending is not Ending.SUCCEEDED:
        problem = ran.outcome.error.message if ran.outcome.error else ran.outcome.ending.value
    elif said == _NO_WAIT:
        return None
    elif wait is None:
        problem = f"{echo(said)} is no answer"
    elif int(wait[1]) > CEILING_MS:
        problem = f"{wait[1]} ms are longer than {CEILING_MS:,} ms"
    else:
        return int(wait[1]) * _MS
    counts = f"the wait of the retry policy counts, {policy.total_seconds():g} s"
    text = f"Strategy {strategy} gave no wait: {problem}; {counts}"
    say(log, logging.WARNING, "strategy.failed", text, execution)
    return None


def _given(
    task: Task, execution: Execution, outcome: Outcome, *, policy_wait: timedelta, now: datetime
) -> dict[str, Any]:
    error = outcome.error or TaskError(message=outcome.ending.value)
    asked = asked_wait(error, now=now)
    names = (*error.types[:1], error.code, outcome.ending.value)
    return {
        "attempts_made": execution.deaths + 1,
        "error_type": next(filter(None, names)),
        "error": {
            "message": error.message,
            "code": error.code,
            "types": error.types,
            "error_class": error.error_class.value,
            "ending": outcome.ending.value,
            "exit_code": outcome.exit_code,
            "signal": outcome.signal,
            "retry_after_ms": asked / _MS if asked else None,
        },
        "job": {
            "name": task.name,
            "type": task.ref.type,
            "id": task.ref.id,
            "schedule": execution.schedule_name,
            "scheduler_id": execution.scheduler_id,
            "execution_id": execution.id,
            "key": execution.key,
            "attempt": execution.attempt,
            "params": msgspec.json.decode(execution.params),
            "policy_wait_ms": policy_wait / _MS,
        },
    }
