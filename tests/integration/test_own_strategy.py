"""A strategy of one's own in a process of its own: the original's example, and one without end."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronhare.adapters.process.runner import ProcessRunner
from cronhare.application.worker.attempt import prepare
from cronhare.application.worker.strategy import ask_strategy
from cronhare.domain.retries.outcome import Ending, Outcome, TaskError
from cronhare.domain.retries.policy import Strategy
from cronhare.domain.schedules.task import Task, TaskPolicy, TaskRef
from cronhare.ports.runner import Invocation
from tests.integration.invocations import ClockPutForward
from tests.unit.executions import execution

pytestmark = pytest.mark.integration

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)

MODULE = '''
import math
import random

print("what a module prints is no answer")

def original(attempts_made, error_type, error, job):
    """The original's example, line by line."""
    if error_type == "RateLimitError" and error.retry_after_ms:
        jitter = error.retry_after_ms * 0.2 * random.random()
        return math.floor(error.retry_after_ms + jitter)

    base = 2000
    exponential = 2 ** (attempts_made - 1)
    with_jitter = base * exponential * (1 + random.random() * 0.1)
    return min(with_jitter, 300_000)

def endless(attempts_made, error_type, error, job):
    while True:
        pass

def broken(attempts_made, error_type, error, job):
    raise KeyError(job.params["user"])
'''


async def asked(
    runner: ProcessRunner, folder: Path, function: str, error: TaskError, *, deaths: int = 0
) -> timedelta | None:
    (folder / "waits.py").write_text(MODULE)
    policy = TaskPolicy(strategy=Strategy("waits", function, folder))
    task = Task(name="mail", ref=TaskRef("worker", 1), command=("true",), policy=policy)
    failed = execution(deaths=deaths, params='{"user":"ann"}')
    invocation = prepare(failed, task)
    assert isinstance(invocation, Invocation)
    return await ask_strategy(
        runner,
        invocation,
        failed,
        Outcome(ending=Ending.FAILED, exit_code=1, error=error),
        policy=timedelta(seconds=30),
        now=NOW,
    )


async def test_the_original_strategy_chooses_its_waits(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    limited = TaskError(
        message="429", types=("RateLimitError",), retry_after=timedelta(seconds=100)
    )

    third, tenth, after_limit = await asyncio.gather(
        asked(runner, tmp_path, "original", TaskError(message="no"), deaths=2),
        asked(runner, tmp_path, "original", TaskError(message="no"), deaths=9),
        asked(runner, tmp_path, "original", limited),
    )

    assert third is not None
    assert after_limit is not None
    assert 8 <= third.total_seconds() <= 8.8
    assert tenth == timedelta(milliseconds=300_000)
    assert 100 <= after_limit.total_seconds() <= 120


async def test_one_that_never_ends_or_raises_is_told_and_gives_no_wait(
    runner: ProcessRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = TaskError(message="no")
    clock = ClockPutForward(monkeypatch)
    endless = asyncio.create_task(asked(runner, tmp_path, "endless", error))
    await clock.leap_once_begun(20)

    assert await endless is None
    assert await asked(runner, tmp_path, "broken", error) is None

    told = [record.message for record in caplog.records if "gave no wait" in record.message]
    assert ["timed out after 10 s" in told[0], "KeyError: 'ann'" in told[1]] == [True, True]
