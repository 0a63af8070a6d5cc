"""What every executor of functions promises. Another joins by one more parameter of `executor`."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

from cronhare.adapters.process import link
from cronhare.adapters.process.apps import PythonRunner
from cronhare.adapters.process.attempt import GRACE
from cronhare.domain.retries.outcome import Ending, ErrorClass
from cronhare.domain.schedules.work import Executor, PythonCall
from cronhare.ports.runner import AttemptResult, Invocation, StopReason
from tests.integration.invocations import (
    HANGS,
    ClockPutForward,
    alive,
    eventually,
    exists,
    invocation,
    open_descriptors,
    sleepers,
    unique_sleep,
    until_file,
)

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
APP = "tests.integration.contract_app:app"

#: A worker that runs one function, from the repository's root.
WORKER = """
import asyncio, json, sys
from cronhare.adapters.process.apps import PythonRunner
from tests.integration.test_executors_contract import calling

async def main():
    name, executor, params = sys.argv[1:]
    await PythonRunner().run(calling(name, executor, timeout=60, **json.loads(params)))

asyncio.run(main())
"""

Call = Callable[..., Invocation]


def calling(
    name: str,
    executor: str,
    *,
    app: str = APP,
    timeout: float = 30,
    folder: Path = ROOT,
    **params: object,
) -> Invocation:
    base = invocation("-", params=params, timeout=timeout, attempt=3, env={"REGION": "eu"})
    python = PythonCall(app=app, executor=Executor(executor), folder=folder)
    task = attrs.evolve(base.task, name=name, command=(), python=python, cwd=folder)
    return attrs.evolve(base, task=task)


@pytest.fixture(params=["process", "fork", "pool"])
def executor(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def call(executor: str) -> Call:
    def make(name: str, **how: Any) -> Invocation:  # noqa: ANN401 - as `calling`
        return calling(name, executor, **how)

    return make


@pytest.fixture
async def runner() -> AsyncIterator[PythonRunner]:
    secrets = {"CRON_DATABASE_URL": "sqlite:///x", "CRON_SMTP_URL": "smtp://canary"}
    runner = PythonRunner(os.environ | secrets)
    yield runner
    await runner.close()


def result(ran: AttemptResult) -> Any:  # noqa: ANN401 - any JSON value
    assert ran.outcome.ending is Ending.SUCCEEDED, (ran.outcome, ran.stderr.head)
    return json.loads(ran.report.result or "null")


# What a function is given, and gives


async def test_a_function_is_called_with_its_parameters_and_its_result_is_kept(
    runner: PythonRunner, call: Call
) -> None:
    ran = await runner.run(call("add", a=1))

    assert result(ran) == {"total": 3}
    assert (ran.report.progress, ran.report.progress_text) == (0.5, "half")
    assert ran.stdout.head == "adding 1\n"
    assert ran.stderr.head == ("for nightly\nINFO cronhare.task: attempt 3\nINFO shop: added\n")
    assert ran.pid is not None
    assert ran.cpu_seconds is not None
    assert ran.peak_memory is not None


async def test_a_function_is_told_of_its_attempt_in_a_process_like_any_other(
    runner: PythonRunner, call: Call, executor: str
) -> None:
    asked = call("told")

    facts = result(await runner.run(asked))
    others = [result(await runner.run(call("was.told"))) for _ in range(2)]

    assert facts == facts | {
        "params": "" if executor == "pool" else "{}",  # of stdin; a pool has no file for a run
        "due": "2025-12-12T08:00:00+00:00",
        "attempt": 3,
        "key": "cron-2025-12-12-8-0",
        "fence": asked.fence,
        "schedule": "nightly",
        "id": asked.execution_id,
        "cwd": str(ROOT),
        "region": "eu",
        "ledger": "sqlite:///x",
        "smtp": None,
        "session": True,
        "threads": 1,
        "mask": [],
        "pipe": True,
        "interrupt": True,
    }
    assert facts["descriptors"][:4] == [0, 1, 2, 3]
    # One is that of the list; a child of a pool has two sockets, and looks at itself.
    assert len(facts["descriptors"]) <= (9 if executor == "pool" else 5)
    assert len({each["random"] for each in (facts, *others)}) == 3


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("add", {"a": "x"}, "a: expected `int`, got `str`; add takes: a: int, b: int = 2"),
        ("add", {}, "a"),
        ("add", {"a": 1, "c": 1}, "c"),
        ("no.such", {}, "app contract has no task no.such; it has: add, "),
    ],
)
async def test_what_does_not_fit_is_a_permanent_failure_that_says_what_does(
    runner: PythonRunner, call: Call, name: str, params: dict[str, object], said: str
) -> None:
    error = (await runner.run(call(name, **params))).outcome.error

    assert error is not None
    assert error.error_class is ErrorClass.PERMANENT
    assert said in error.message


# How it ends


async def test_a_failure_has_its_class_and_its_stack_and_a_snooze_is_an_ending_of_its_own(
    runner: PythonRunner, call: Call
) -> None:
    failed = (await runner.run(call("fails", message="away"))).outcome.error
    refused = (await runner.run(call("refuses"))).outcome.error
    later = (await runner.run(call("later"))).outcome

    assert failed is not None
    assert (failed.error_class, failed.code) == (ErrorClass.TRANSIENT, "ECONNREFUSED")
    assert "contract_app.py" in (failed.stack or "").splitlines()[1]
    assert failed.types[0] == "ConnectionRefusedError"
    assert refused is not None
    assert refused.error_class is ErrorClass.PERMANENT
    assert later.ending is Ending.SNOOZED
    assert later.error is not None
    assert later.error.retry_after == timedelta(seconds=90)


@pytest.mark.parametrize("by_os", [False, True])
async def test_an_end_keeps_its_meaning(runner: PythonRunner, call: Call, by_os: bool) -> None:
    good = await runner.run(call("exits", code=0, by_os=by_os))
    bad = await runner.run(call("exits", code=3, by_os=by_os))
    died = await runner.run(call("dies", signum=signal.SIGSEGV))

    assert good.outcome.ending is Ending.SUCCEEDED
    assert (bad.outcome.ending, bad.outcome.exit_code) == (Ending.FAILED, 3)
    assert bad.stdout.head == "last words"
    assert (died.outcome.ending, died.outcome.signal) == (Ending.CRASHED, signal.SIGSEGV)


async def test_threads_are_waited_for_and_exit_handlers_run(
    runner: PythonRunner, call: Call, executor: str
) -> None:
    ran = await runner.run(call("ends_late"))

    assert ran.outcome.ending is Ending.SUCCEEDED
    handlers = "" if executor == "pool" else "handlers\n"  # the child has not ended
    assert ran.stdout.head == f"thread\n{handlers}"


async def test_progress_starts_the_timeout_anew(
    runner: PythonRunner, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ClockPutForward(monkeypatch)
    running = asyncio.create_task(runner.run(call("renews", place=str(tmp_path), timeout=1_000)))

    for following in ("on", "end"):
        await clock.leap_once_begun(600)
        (tmp_path / following).touch()

    assert (await running).outcome.ending is Ending.SUCCEEDED


@pytest.mark.parametrize(
    ("reason", "ending"),
    [(StopReason.CANCELLED, Ending.CANCELLED), (StopReason.INTERRUPTED, Ending.INTERRUPTED)],
)
async def test_what_it_writes_is_read_while_it_runs_and_what_is_stopped_may_clean_up(
    runner: PythonRunner, call: Call, tmp_path: Path, reason: StopReason, ending: Ending
) -> None:
    ready = tmp_path / "ready"
    stopped = call("hangs", ready=str(ready))
    running = asyncio.create_task(runner.run(stopped))

    def has_begun() -> bool:
        written = runner.written(stopped.execution_id)
        return ready.exists() and written is not None and written.stdout.head == "begun\n"

    assert await eventually(has_begun)
    assert runner.stop(stopped.execution_id, reason)
    ran = await running

    assert ran.outcome.ending is ending
    assert await until_file(Path(f"{ready}.end")) == "cancelled: True"
    assert ran.stdout.head == "begun\n"
    assert "in hangs" in ran.stderr.head  # where it was
    assert runner.written(stopped.execution_id) is None


async def test_an_async_function_is_cancelled_at_its_timeout(
    runner: PythonRunner, call: Call, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"

    ran = await runner.run(call("waits", ready=str(ready), timeout=2))

    assert ran.outcome.ending is Ending.TIMED_OUT
    assert exists(f"{ready}.end")
    assert "in waits" in ran.stderr.head


async def test_what_ignores_sigterm_is_killed_after_its_grace(
    runner: PythonRunner, call: Call, tmp_path: Path
) -> None:
    await runner.run(call("told"))  # the import is over
    before = time.monotonic()

    ran = await runner.run(call("stubborn", ready=str(tmp_path / "ready"), timeout=2))

    assert (ran.outcome.ending, ran.outcome.signal) == (Ending.TIMED_OUT, signal.SIGKILL)
    assert 2 + GRACE < time.monotonic() - before < 2 + GRACE + 6


# What it does to the others


async def test_no_run_finds_what_another_has_changed(
    runner: PythonRunner, call: Call, tmp_path: Path
) -> None:
    before = result(await runner.run(call("told")))
    spoilt = await runner.run(call("spoils", place=str(tmp_path)))
    after = result(await runner.run(call("told")))

    assert spoilt.outcome.ending is Ending.SUCCEEDED
    for name in ("cwd", "region", "pipe", "descriptors"):
        assert after[name] == before[name]


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGABRT])
async def test_no_signal_but_kill_reaches_what_watches_over_it(
    runner: PythonRunner, call: Call, signum: int
) -> None:
    sends, innocent = await asyncio.gather(
        runner.run(call("signals", signum=signum)), runner.run(call("signals", signum=0))
    )

    assert sends.outcome.ending is innocent.outcome.ending is Ending.SUCCEEDED


async def test_what_stops_it_costs_nobody_anything_and_is_said(
    runner: PythonRunner,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(link, "EVERY", 0.2)

    async with asyncio.timeout(HANGS):
        rans = await asyncio.gather(
            runner.run(call("signals", signum=signal.SIGSTOP)), runner.run(call("add", a=1))
        )

    assert [ran.outcome.ending for ran in rans] == [Ending.SUCCEEDED] * 2
    assert "warden.silent" in [record.__dict__.get("action") for record in caplog.records]


async def test_no_descriptor_is_left_after_many_runs(runner: PythonRunner, call: Call) -> None:
    count, before = 0, -1
    for _ in range(12):  # a pool may fork one more each time, until each run has a child
        await asyncio.gather(*(runner.run(call("add", a=n)) for n in range(10)))
        count, before = open_descriptors(), count
        if count == before:
            break

    assert count == before


# What stays behind


@pytest.mark.parametrize("ends", [True, False])
async def test_nothing_of_an_attempt_outlives_it(
    runner: PythonRunner, call: Call, tmp_path: Path, ends: bool
) -> None:
    seconds, ready = unique_sleep(), tmp_path / "ready"
    before = time.monotonic()

    ran = await runner.run(
        call("family", seconds=seconds, ready=str(ready), ends=ends, timeout=20 if ends else 2)
    )

    _, _, daemon, params_file = (await until_file(ready)).split()
    assert ran.outcome.ending is (Ending.SUCCEEDED if ends else Ending.TIMED_OUT)
    assert time.monotonic() - before < 20
    assert sleepers(seconds) == set()
    assert not alive(int(daemon))
    assert not exists(params_file)


@pytest.mark.parametrize("killed", ["worker", "warden"])
async def test_a_kill_of_what_watches_over_it_leaves_nothing(
    executor: str, tmp_path: Path, killed: str
) -> None:
    seconds, ready = unique_sleep(), tmp_path / "ready"
    params = json.dumps({"seconds": seconds, "ready": str(ready), "ends": False})
    arguments = [sys.executable, "-c", WORKER, "family", executor, params]
    with subprocess.Popen(arguments, cwd=ROOT) as process:  # noqa: ASYNC220 - to be killed
        pid, warden, daemon, params_file = (await until_file(ready)).split()

        os.kill(process.pid if killed == "worker" else int(warden), signal.SIGKILL)
        gone = await eventually(
            lambda: (
                not any(alive(int(each)) for each in (pid, warden, daemon))
                and not exists(params_file.rpartition("/")[0])
                and not sleepers(seconds)
            )
        )
        process.kill()

    assert gone


async def test_after_a_killed_warden_its_attempts_are_lost_and_the_next_has_a_new_one(
    runner: PythonRunner, call: Call, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    running = asyncio.create_task(runner.run(call("stubborn", ready=str(ready))))
    pid, warden = map(int, (await until_file(ready)).split())

    os.kill(warden, signal.SIGKILL)
    lost = await running
    after = await runner.run(call("add", a=1))

    assert lost.outcome.ending is Ending.LOST
    assert not alive(pid)
    assert result(after) == {"total": 3}


async def test_closing_ends_what_runs(runner: PythonRunner, call: Call, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    running = asyncio.create_task(runner.run(call("stubborn", ready=str(ready))))
    pid, warden = map(int, (await until_file(ready)).split())

    await runner.close()

    assert (await running).outcome.ending is Ending.INTERRUPTED
    assert not alive(pid)
    assert not alive(warden)
