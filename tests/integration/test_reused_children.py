"""What runs that share a child, in turn or at once, may do to each other: nothing."""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from cronhare.adapters.process import loops
from cronhare.adapters.process.apps import PythonRunner
from cronhare.adapters.process.warden import MOST_GROWTH
from cronhare.domain.retries.outcome import Ending, ErrorClass
from cronhare.ports.runner import AttemptResult, Invocation, StopReason
from tests.integration.invocations import alive, eventually, until_file
from tests.integration.test_executors_contract import calling, result

pytestmark = pytest.mark.integration

APP = "tests.integration.reused_app:app"


def pooled(name: str, *, executor: str = "pool", timeout: float = 30, **params: Any) -> Invocation:  # noqa: ANN401 - JSON
    return calling(name, executor, app=APP, timeout=timeout, **params)


def coroutine(name: str, *, timeout: float = 30, **params: Any) -> Invocation:  # noqa: ANN401 - JSON
    return pooled(name, executor="async", timeout=timeout, **params)


def limited(asked: Invocation, **limits: Any) -> Invocation:  # noqa: ANN401 - as `PythonCall`
    call = asked.task.python
    assert call is not None
    python = attrs.evolve(call, **limits)
    return attrs.evolve(asked, task=attrs.evolve(asked.task, python=python))


@pytest.fixture
async def runner() -> AsyncIterator[PythonRunner]:
    runner = PythonRunner()
    yield runner
    await runner.close()


def message(ran: AttemptResult) -> str:
    assert ran.outcome.error is not None, ran
    return ran.outcome.error.message


# One after the other


@pytest.mark.parametrize("used", [pooled("who"), coroutine("told", a=1)], ids=["pool", "async"])
async def test_a_child_is_used_again_until_it_has_done_its_number_of_runs(
    runner: PythonRunner, used: Invocation
) -> None:
    pids = [result(await runner.run(limited(used, per_child=2)))["pid"] for _ in range(3)]

    assert pids[0] == pids[1] != pids[2]
    assert await eventually(lambda: not alive(pids[0]))


async def test_a_thousand_leaks_of_five_megabytes_keep_memory_flat(runner: PythonRunner) -> None:
    held = [result(await runner.run(pooled("leaks", size=5 * 1024 * 1024))) for _ in range(1_000)]

    assert max(held) < min(held) + MOST_GROWTH + 16 * 1024 * 1024


@pytest.mark.parametrize(
    "what",
    ["a thread", "an open file", "a folder", "a handler", "a timer", "limits", "an environment"],
)
async def test_a_child_that_a_run_leaves_something_in_runs_no_other(
    runner: PythonRunner, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    pids = [result(await runner.run(pooled("leaves", what=what))) for _ in range(5)]
    after = result(await runner.run(pooled("who")))

    # What the first run opens may be kept, as a connection is; a later one adds to it.
    most = 2 if what in {"a thread", "an open file"} else 1
    assert max(map(pids.count, pids)) == most
    assert after["pid"] != pids[-1] or most == 2
    assert caplog.messages.count(next(m for m in caplog.messages if "Task leaves" in m)) == 1


async def test_a_variable_a_process_and_a_fork_are_gone_before_the_next_run(
    runner: PythonRunner,
) -> None:
    kinds = ("a variable", "a process", "a fork")

    ran = [await runner.run(pooled("leaves", what=what)) for what in kinds]
    after = result(await runner.run(pooled("who")))

    assert [each.left_running for each in ran[:2]] == [0, 1]
    assert result(ran[0]) == result(ran[1])
    assert ran[2].outcome.ending is Ending.SUCCEEDED
    assert after["env"] is None


async def stopped_child(runner: PythonRunner) -> int:
    """Stop a child that is idle, so that it is given runs and begins none."""
    idle: int = result(await runner.run(pooled("who")))["pid"]
    for _ in range(3):  # it is quick: others may wait in it
        await runner.run(pooled("measures", text=""))
    os.kill(idle, signal.SIGSTOP)
    await eventually(lambda: " T " in Path(f"/proc/{idle}/stat").read_text())
    return idle


async def test_a_run_that_is_cancelled_before_its_child_begins_it_never_begins(
    runner: PythonRunner, tmp_path: Path
) -> None:
    await stopped_child(runner)
    asked = pooled("prints", number=1, begun=str(tmp_path / "begun"))
    running = asyncio.create_task(runner.run(asked))
    await asyncio.sleep(0.1)

    assert runner.stop(asked.execution_id, StopReason.CANCELLED)

    assert (await running).outcome.ending is Ending.CANCELLED
    assert not (tmp_path / "begun").exists()


async def test_runs_that_wait_for_others_in_a_child_are_run_once_whatever_kills_it(
    runner: PythonRunner, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    asked = [pooled("prints", number=number, begun=str(begun)) for number in range(1_000)]
    running = [asyncio.create_task(runner.run(each)) for each in asked]
    await eventually(begun.exists)
    for _ in range(20):
        await asyncio.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(begun.read_text().split()[-1]), signal.SIGKILL)

    ran = await asyncio.gather(*running)

    crashed = [each for each in ran if each.outcome.ending is Ending.CRASHED]
    assert {each.outcome.ending for each in ran} == {Ending.SUCCEEDED, Ending.CRASHED}
    assert len(crashed) <= 20
    assert len(ran) - len(crashed) <= len(begun.read_text().splitlines()) <= len(ran)
    for number, each in enumerate(ran):
        assert each in crashed or each.stdout.head == f"{number}\n"


async def test_a_run_that_takes_long_keeps_none_waiting_behind_it(runner: PythonRunner) -> None:
    await asyncio.gather(*(runner.run(pooled("naps", seconds=0)) for _ in range(50)))
    long = [asyncio.create_task(runner.run(pooled("works", seconds=20))) for _ in range(2)]
    short = [asyncio.create_task(runner.run(pooled("naps", seconds=0))) for _ in range(20)]

    await asyncio.wait_for(asyncio.gather(*short), 5)

    assert not any(each.done() for each in long)
    for each in long:
        each.cancel()
    await asyncio.gather(*long, return_exceptions=True)


@pytest.mark.parametrize("executor", ["pool", "fork", "process"])
async def test_a_run_that_takes_more_memory_than_it_may_is_killed(
    runner: PythonRunner, tmp_path: Path, executor: str
) -> None:
    asked = pooled("grows", executor=executor, ready=str(tmp_path / "ready"))

    ran = await runner.run(limited(asked, memory=128 * 1024 * 1024))

    assert ran.outcome.ending is Ending.FAILED
    assert message(ran) == "took more memory than its 128 MB"


async def test_what_earlier_runs_hold_does_not_count_as_a_runs_own_memory(
    runner: PythonRunner,
) -> None:
    size = 48 * 1024 * 1024
    held = result(await runner.run(pooled("who")))
    left = result(await runner.run(pooled("leaks", size=size)))

    ran = await runner.run(limited(pooled("naps", seconds=0.5), memory=left - size // 2))

    assert result(ran) == held["pid"]


# Many at once


async def test_coroutines_are_each_told_of_their_own_attempt(runner: PythonRunner) -> None:
    asked = [coroutine("told", a=n) for n in range(20)]

    ran = await asyncio.gather(*map(runner.run, asked))

    for n, (one, each) in enumerate(zip(asked, ran, strict=True)):
        answer = result(each)
        assert answer == answer | {
            "total": n + 2,
            "key": "cron-2025-12-12-8-0",
            "params": {"a": n},
            "id": one.execution_id,
        }
        assert each.stdout.head == f"adding {n}\n"
        assert each.stderr.head == "for nightly\n"
        assert each.report.progress == 0.5
    assert len({result(each)["pid"] for each in ran}) == 1


async def test_each_coroutine_has_its_own_end(runner: PythonRunner) -> None:
    how = ("error", "refused", "exit", "snooze", "cancelled")
    ran = await asyncio.gather(*(runner.run(coroutine("fails", how=each)) for each in how))
    error, refused, exited, snoozed, cancelled = (each.outcome for each in ran)

    assert error.error is not None
    assert (error.error.error_class, error.error.code) == (ErrorClass.TRANSIENT, "ECONNREFUSED")
    assert "reused_app.py" in (error.error.stack or "").splitlines()[1]
    assert refused.error is not None
    assert refused.error.error_class is ErrorClass.PERMANENT
    assert (exited.ending, exited.exit_code) == (Ending.FAILED, 3)
    assert snoozed.ending is Ending.SNOOZED
    assert (cancelled.ending, cancelled.exit_code) == (Ending.FAILED, 1)


async def test_a_coroutine_is_cancelled_at_its_limit_and_its_neighbours_go_on(
    runner: PythonRunner,
) -> None:
    limit, neighbour = await asyncio.gather(
        runner.run(coroutine("waits", seconds=300, timeout=1)),
        runner.run(coroutine("waits", seconds=2)),
    )

    assert limit.outcome.ending is Ending.TIMED_OUT
    assert limit.stdout.head == "cleaned up\n"
    assert neighbour.outcome.ending is Ending.SUCCEEDED


async def test_one_that_goes_on_after_its_cancel_is_killed_and_neighbours_are_handed_back(
    runner: PythonRunner, tmp_path: Path
) -> None:
    began = time.monotonic()
    neighbour = asyncio.create_task(runner.run(coroutine("waits", seconds=60)))

    ran = await runner.run(coroutine("stubborn", ready=str(tmp_path / "ready"), timeout=1))
    beside = await neighbour

    assert ran.outcome.ending is Ending.TIMED_OUT
    assert time.monotonic() - began < 1 + 6 + 2
    assert not alive(int(await until_file(tmp_path / "ready")))
    # Without a pid it counts as no restart that the task has asked for.
    assert (beside.outcome.ending, beside.pid) == (Ending.INTERRUPTED, None)
    assert (await runner.run(coroutine("told", a=1))).outcome.ending is Ending.SUCCEEDED


async def test_what_holds_up_the_loop_is_found_by_its_stack(
    runner: PythonRunner, tmp_path: Path
) -> None:
    neighbours = [asyncio.create_task(runner.run(coroutine("waits", seconds=60))) for _ in "ab"]
    late = asyncio.create_task(runner.run(coroutine("waits", seconds=60, timeout=2)))

    ran = await runner.run(coroutine("blocks", ready=str(tmp_path / "ready"), timeout=60))

    assert ran.outcome.ending is Ending.FAILED
    assert message(ran).startswith("held up the loop")
    assert ran.outcome.error is not None
    assert "in blocks" in (ran.outcome.error.stack or "")
    for each in (*neighbours, late):
        assert (await each).outcome.ending is Ending.INTERRUPTED


async def test_when_a_child_dies_each_of_its_runs_is_run_alone_next(runner: PythonRunner) -> None:
    culprit, neighbour = coroutine("dies"), coroutine("waits", seconds=1)

    first = await asyncio.gather(runner.run(culprit), runner.run(neighbour))
    again = await asyncio.gather(runner.run(culprit), runner.run(neighbour))

    assert [each.outcome.ending for each in first] == [Ending.INTERRUPTED] * 2
    assert [each.pid for each in first] == [None, None]
    assert [each.outcome.ending for each in again] == [Ending.CRASHED, Ending.SUCCEEDED]
    assert again[0].pid != again[1].pid


@pytest.mark.parametrize(
    ("leaves", "asked"),
    [
        (pooled("ends_its_process_later", after=1), pooled("naps", seconds=2)),
        (coroutine("leaves_a_task", what="0"), coroutine("waits", seconds=2)),
        (coroutine("leaves_a_task", what="3"), coroutine("waits", seconds=2)),
        (coroutine("leaves_a_task", what="blocks"), coroutine("waits", seconds=2)),
    ],
    ids=["thread", "exit 0", "exit 3", "blocks"],
)
async def test_what_an_earlier_run_left_is_no_end_of_the_run_that_is_there_now(
    runner: PythonRunner, leaves: Invocation, asked: Invocation
) -> None:
    result(await runner.run(leaves))

    ran = await runner.run(asked)
    again = await runner.run(asked)

    assert (ran.outcome.ending, ran.pid) == (Ending.INTERRUPTED, None)
    assert again.outcome.ending is Ending.SUCCEEDED


async def test_one_whose_neighbours_block_time_and_again_is_run_alone_at_last(
    runner: PythonRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "EVERY", 0.2)
    asked = coroutine("waits", seconds=5)

    ran = list[AttemptResult]()
    for n in range(3):
        blocks = coroutine("blocks", ready=str(tmp_path / str(n)))
        ran += (await asyncio.gather(runner.run(asked), runner.run(blocks)))[:1]

    endings = [each.outcome.ending for each in ran]
    assert endings == [Ending.INTERRUPTED, Ending.INTERRUPTED, Ending.SUCCEEDED]
    assert "a run beside it held up the loop" in message(ran[0])


async def test_endless_output_of_one_leaves_the_others_their_loop(
    runner: PythonRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("cronhare.task"), "level", logging.WARNING)

    flood, neighbour = await asyncio.gather(
        runner.run(coroutine("floods", count=20_000)),
        runner.run(coroutine("waits", seconds=0.5, timeout=20)),
    )

    assert flood.stdout.bytes == 20_000 * 1_000
    assert neighbour.outcome.ending is Ending.SUCCEEDED
