"""What every `TaskRunnerPort` promises. An adapter joins by one more parameter of two fixtures.

What takes output, IPC or time to pass is in test_process_runner.py: a script has none of them.
"""

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest

from cronhare.domain.retries.outcome import Ending, Outcome, TaskError
from cronhare.ports.runner import AttemptResult, Invocation, StopReason, TaskRunnerPort
from tests.integration.invocations import shell
from tests.integration.starting import started_by
from tests.scripted_runner import ScriptedRunner


def exits(code: int) -> Invocation:
    return shell(f"exit {code}")


def dies(signum: int) -> Invocation:
    return shell(f"kill -{int(signum)} $$")


def hangs() -> Invocation:
    return shell("sleep 3600")


def writes(text: str) -> Invocation:
    return shell(f"printf {text}; sleep 3600")


def told(invocation: Invocation) -> Outcome:
    """What the scripted runner is to say of those lines of shell."""
    verb, number = invocation.task.command[-1].split()[:2]
    error = TaskError(message=f"{verb} {number}")
    if verb == "kill":
        return Outcome(ending=Ending.CRASHED, signal=-int(number), error=error)
    if number != "0":
        return Outcome(ending=Ending.FAILED, exit_code=int(number), error=error)
    return Outcome(ending=Ending.SUCCEEDED, exit_code=0)


def said(invocation: Invocation) -> str:
    """What the scripted runner is to have written by then."""
    verb, text = invocation.task.command[-1].split()[:2]
    return text.rstrip(";") if verb == "printf" else ""


RUNNERS = [
    "scripted",
    *(pytest.param(name, marks=pytest.mark.integration) for name in ("fork", "vfork")),
]


async def built(
    name: str, monkeypatch: pytest.MonkeyPatch, *, holds: bool
) -> AsyncIterator[TaskRunnerPort]:
    if name == "scripted":
        yield ScriptedRunner(told, holds=holds, says=said)
        return
    async for runner in started_by(name, monkeypatch):
        yield runner


@pytest.fixture(params=RUNNERS)
async def runner(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TaskRunnerPort]:
    async for runner in built(request.param, monkeypatch, holds=False):
        yield runner


@pytest.fixture(params=RUNNERS)
async def endless(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TaskRunnerPort]:
    """A runner whose attempts run until they are stopped."""
    async for runner in built(request.param, monkeypatch, holds=True):
        yield runner


async def begin(runner: TaskRunnerPort, invocation: Invocation) -> asyncio.Task[AttemptResult]:
    running = asyncio.create_task(runner.run(invocation))
    await asyncio.sleep(0)  # as far as it can get before anything else happens
    return running


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (exits(0), (Ending.SUCCEEDED, 0, None)),
        (exits(3), (Ending.FAILED, 3, None)),
        (dies(signal.SIGSEGV), (Ending.CRASHED, None, 11)),
    ],
)
async def test_an_attempt_that_ends_by_itself_ends_as_its_task_chose(
    runner: TaskRunnerPort, what: Invocation, expected: tuple[Ending, int | None, int | None]
) -> None:
    ran = await runner.run(what)

    outcome = ran.outcome
    assert (outcome.ending, outcome.exit_code, outcome.signal) == expected
    assert (outcome.error is None) == (outcome.ending is Ending.SUCCEEDED)


async def test_many_run_at_once_and_each_has_its_own_end_and_then_cannot_be_stopped(
    runner: TaskRunnerPort,
) -> None:
    plays = [exits(code) for code in range(20)]

    ran = await asyncio.gather(*map(runner.run, plays))

    assert [r.outcome.exit_code for r in ran] == list(range(20))
    assert not any(runner.stop(each.execution_id, StopReason.CANCELLED) for each in plays)


@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        (StopReason.CANCELLED, Ending.CANCELLED),
        (StopReason.INTERRUPTED, Ending.INTERRUPTED),
        (StopReason.WINDING_DOWN, Ending.INTERRUPTED),
        (StopReason.LEASE_LOST, Ending.LOST),
    ],
)
async def test_a_stopped_attempt_ends_for_the_reason_given(
    endless: TaskRunnerPort, reason: StopReason, ending: Ending
) -> None:
    hanging = hangs()
    running = await begin(endless, hanging)

    known = endless.stop(hanging.execution_id, reason)
    ran = await running

    assert known
    assert ran.outcome.ending is ending
    assert ran.outcome.error is not None


async def test_only_the_one_that_is_meant_is_stopped_and_stopping_again_changes_nothing(
    endless: TaskRunnerPort,
) -> None:
    one, other = hangs(), hangs()
    running = [await begin(endless, one), await begin(endless, other)]

    endless.stop(one.execution_id, StopReason.CANCELLED)
    endless.stop(one.execution_id, StopReason.INTERRUPTED)
    first = await running[0]
    still_known = endless.stop(other.execution_id, StopReason.INTERRUPTED)

    assert first.outcome.ending is Ending.CANCELLED
    assert still_known
    assert (await running[1]).outcome.ending is Ending.INTERRUPTED


async def test_what_runs_tells_what_it_has_written_so_far(endless: TaskRunnerPort) -> None:
    writing, silent = writes("words"), hangs()
    running = [await begin(endless, writing), await begin(endless, silent)]

    while (written := endless.written(writing.execution_id)) is None:  # noqa: ASYNC110 - it has no events
        await asyncio.sleep(0.01)

    assert written.execution_id == writing.execution_id
    assert (written.attempt, written.mark) == (writing.attempt, 5)
    assert (written.stdout.head, written.stderr.bytes) == ("words", 0)
    assert endless.written(writing.execution_id, beyond=4) == written
    assert endless.written(writing.execution_id, beyond=5) is None
    assert endless.written(silent.execution_id) is None
    for invocation in (writing, silent):
        endless.stop(invocation.execution_id, StopReason.LEASE_LOST)
    await asyncio.gather(*running)
    assert endless.written(writing.execution_id) is None


async def test_closing_ends_what_runs(endless: TaskRunnerPort) -> None:
    running = await begin(endless, hangs())

    await endless.close()

    assert (await running).outcome.ending is Ending.INTERRUPTED
