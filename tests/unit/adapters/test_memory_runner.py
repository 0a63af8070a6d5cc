import asyncio
from datetime import UTC, datetime
from itertools import count

import pytest

from cronhare.adapters.memory.runner import ScriptedRunner
from cronhare.domain.retries.outcome import Ending, Outcome, TaskError
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.ports.runner import AttemptResult, Captured, Invocation

TASK = Task(name="report", ref=TaskRef("report", 25), command=("report",))


def invocation(execution_id: int = 1, attempt: int = 1) -> Invocation:
    return Invocation(
        execution_id=execution_id,
        execution_key=f"manual-{execution_id}",
        scheduler_id=16,
        schedule_name="nightly",
        attempt=attempt,
        deaths=attempt - 1,
        due_at=datetime(2025, 12, 12, 8, tzinfo=UTC),
        fence=execution_id * 1_000_000 + attempt,
        task=TASK,
        params={},
    )


def fail_twice(invocation: Invocation) -> Outcome:
    if invocation.attempt <= 2:
        return Outcome(ending=Ending.FAILED, exit_code=1, error=TaskError(message="not yet"))
    return Outcome(ending=Ending.SUCCEEDED, exit_code=0)


async def test_without_a_script_every_attempt_succeeds() -> None:
    ran = await ScriptedRunner().run(invocation())

    assert ran.outcome.ending is Ending.SUCCEEDED


async def test_the_script_says_how_each_attempt_ends() -> None:
    runner = ScriptedRunner(fail_twice)

    ran = [await runner.run(invocation(attempt=attempt)) for attempt in (1, 2, 3)]

    assert [one.outcome.ending for one in ran] == ["failed", "failed", "succeeded"]


async def test_a_script_can_say_what_an_attempt_left_behind() -> None:
    left = AttemptResult(
        outcome=Outcome(ending=Ending.SUCCEEDED), pid=4_711, stdout=Captured(head="hi", bytes=2)
    )

    assert await ScriptedRunner(lambda _: left).run(invocation()) == left


async def test_a_held_attempt_ends_as_the_script_says_once_it_is_released() -> None:
    runner = ScriptedRunner(fail_twice, holds=True)
    running = asyncio.create_task(runner.run(invocation(7)))
    await asyncio.sleep(0)
    held, over = runner.running, running.done()

    runner.release(7)

    assert held == {7}
    assert not over
    assert (await running).outcome.ending is Ending.FAILED
    assert runner.running == frozenset()


async def test_what_does_not_run_cannot_be_released() -> None:
    with pytest.raises(LookupError):
        ScriptedRunner(holds=True).release(7)


async def test_an_attempt_whose_caller_goes_away_is_no_longer_held() -> None:
    runner = ScriptedRunner(holds=True)
    running = asyncio.create_task(runner.run(invocation(7)))
    await asyncio.sleep(0)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert runner.running == frozenset()


async def test_a_script_is_asked_once_for_each_attempt() -> None:
    asked = count()
    runner = ScriptedRunner(lambda _: Outcome(ending=Ending.SUCCEEDED, exit_code=next(asked)))

    codes = [(await runner.run(invocation(n))).outcome.exit_code for n in range(3)]

    assert codes == [0, 1, 2]
