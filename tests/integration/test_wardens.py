"""Wardens: what they start by vfork, what a task can do to one, and what a SIGKILL leaves."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cronhare.adapters.process import attempt, link
from cronhare.adapters.process.output import BURST, PER_SECOND
from cronhare.adapters.process.runner import ProcessRunner
from cronhare.adapters.process.warden import Frame, Vfork
from cronhare.domain.retries.outcome import Ending
from cronhare.ports.runner import StopReason
from tests.integration.invocations import (
    alive,
    eventually,
    invocation,
    shell,
    until_file,
)
from tests.integration.starting import compiled

pytestmark = pytest.mark.integration


class Weighed(logging.Handler):
    """Counts what the log of tasks would weigh, with 256 bytes for what stands before a line."""

    bytes = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.bytes += len(record.getMessage().encode()) + 256


async def test_what_hangs_after_its_kill_gives_its_place_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(attempt, "KILL_TIMEOUT", 0.05)
    signals: list[int] = []
    hangs = attempt.Attempt(invocation("true"), signals.append)  # no report of its end will come

    for _ in range(3):
        hangs.stop(StopReason.LEASE_LOST)
    async with asyncio.timeout(60):
        ran = await hangs.over

    assert signals == [signal.SIGKILL] * 3
    assert ran.outcome.ending is Ending.LOST
    assert "hangs in the kernel" in caplog.text


async def test_a_warden_that_answers_nothing_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tmp_path / "silent.py"
    silent.write_text("import time; time.sleep(300)")
    monkeypatch.setattr(link, "_WARDEN", silent)
    monkeypatch.setattr(link, "EVERY", 0.02)
    lost = asyncio.Queue[str]()
    asks = link.Link(lambda _: None, lost.put_nowait, needed=lambda: True)

    asks.send({"ping": True})
    async with asyncio.timeout(60):
        folder = await lost.get()

    assert folder == asks.folder


async def test_a_runner_closes_though_its_warden_is_stopped(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    task = f"kill -STOP $PPID; echo $$ $PPID >{ready}; exec sleep 300"
    running = asyncio.create_task(runner.run(shell(task)))
    pid, warden = map(int, (await until_file(ready)).split())

    async with asyncio.timeout(60):
        await runner.close()
        ran = await running

    assert ran.outcome.ending is Ending.INTERRUPTED
    assert not alive(pid)
    assert not alive(warden)


async def test_tasks_that_write_without_end_leave_room_for_the_others(
    runner: ProcessRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, weighed = logging.getLogger("cronhare.task"), Weighed()
    monkeypatch.setattr(log, "level", logging.INFO)
    monkeypatch.setattr(log, "propagate", False)
    monkeypatch.setattr(log, "handlers", [weighed])
    floods = [
        shell("exec yes ''", timeout=120),
        shell("yes '' >&2", timeout=120),
        shell("""yes '{"progress": "x"}' >&3""", timeout=120),
        shell("""yes '{"finish": 1}' >&3""", timeout=120),
    ]
    began, cpu = time.monotonic(), time.thread_time()
    flooding = asyncio.gather(*map(runner.run, floods))
    await asyncio.sleep(0.5)
    innocent = [(await runner.run(invocation("true"))).outcome.ending for _ in range(10)]
    late = await runner.run(shell("sleep 300", timeout=0.5))
    ended_before = not flooding.done()
    await asyncio.sleep(1)
    for flood in floods:
        runner.stop(flood.execution_id, StopReason.CANCELLED)
    rans = await flooding
    took, cpu = time.monotonic() - began, time.thread_time() - cpu

    assert innocent == [Ending.SUCCEEDED] * 10
    assert late.outcome.ending is Ending.TIMED_OUT
    assert ended_before
    assert {ran.outcome.ending for ran in rans} == {Ending.CANCELLED}
    assert weighed.bytes <= 3 * (BURST + (took + 1) * PER_SECOND) + 100_000
    assert cpu < took * 0.8  # of one processor; a loop that does nothing else takes all of it
    assert rans[0].stdout.bytes > 4 * 65_536  # what a pipe holds is read again and again


#: A worker that runs its second argument in a shell, from the repository's root.
WORKER = """
import asyncio, sys
from cronhare.adapters.process.runner import ProcessRunner
from tests.integration.invocations import shell

async def main():
    await ProcessRunner().run(shell(sys.argv[1]))

asyncio.run(main())
"""
ROOT = Path(__file__).parents[2]


def start(script: str) -> "subprocess.Popen[bytes]":
    """Start a worker that runs a script, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, script], cwd=ROOT, start_new_session=True
    )


async def test_a_task_dies_with_its_warden_even_if_no_worker_can_see_to_it(
    tmp_path: Path,
) -> None:
    ready = tmp_path / "ready"
    clears = 'rm -r "${CRON_PARAMS_FILE%/*}"'  # as nobody is left to do it
    with start(f'{clears}; echo "$$ $PPID" >{ready}; while :; do sleep 0.1; done') as process:
        task, warden = map(int, (await until_file(ready)).split())

        process.send_signal(signal.SIGSTOP)
        os.kill(warden, signal.SIGKILL)
        died = await eventually(lambda: not alive(task))
        process.kill()

    assert died


async def test_a_ctrl_c_at_the_terminal_is_for_the_worker_alone(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with start(f'echo "$$ $PPID" >{ready}; sleep 300') as process:
        task, warden = map(int, (await until_file(ready)).split())

        sessions = {os.getsid(pid) for pid in (process.pid, warden, task)}
        process.kill()

    assert sessions == {process.pid, warden, task}


@pytest.fixture(autouse=True)
def _only_proc_is_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """`/proc` stands for a file system of a network; whatever the others are, they are disks."""
    remote = Path("/proc/self/").stat().st_dev
    monkeypatch.setattr(os, "major", lambda device: int(device != remote))


@pytest.fixture
def fds() -> Iterator[list[int]]:
    """What become the descriptors of a task: all four the same pipe."""
    reader, writer = os.pipe()
    yield [writer] * 4
    os.close(writer)
    os.close(reader)


def task(*argv: str, cwd: str | None = None, ids: list[int] | None = None) -> Frame:
    return {"argv": argv, "env": {"PATH": os.defpath, "A": "1"}, "cwd": cwd, "ids": ids}


def learnt(*argv: str) -> Vfork:
    vfork = Vfork(str(compiled()))
    vfork.learn(task(*argv))
    return vfork


@pytest.mark.parametrize("name", ["true", "/bin/true"])
def test_a_program_of_this_host_is_started_by_vfork_once_it_has_run(
    name: str, fds: list[int]
) -> None:
    pid = learnt(name).start(task(name), fds)

    assert Vfork(str(compiled())).start(task(name), fds) == 0
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize(
    "other",
    [
        task("sh", cwd="/"),
        task("sh", ids=[1, 1]),
        task("sh", "a\0b"),
        task("sh", "\ud800"),
        task("env"),
    ],
)
def test_what_goes_elsewhere_or_cannot_be_started_or_is_not_known_takes_a_fork(
    other: Frame, fds: list[int]
) -> None:
    assert learnt("sh").start(other, fds) == 0


@pytest.mark.parametrize(
    ("first_line", "vforks"),
    [("#!/bin/sh", True), ("#! /usr/bin/env sh", True), ("#!/proc/self/exe", False), ("", False)],
)
def test_a_script_is_started_as_its_interpreter_allows(
    tmp_path: Path, fds: list[int], first_line: str, *, vforks: bool
) -> None:
    script = tmp_path / "script"
    script.write_text(f"{first_line}\n")
    script.chmod(0o755)

    pid = learnt(str(script)).start(task(str(script)), fds)

    assert bool(pid) is vforks
    if vforks:
        os.waitpid(pid, 0)


@pytest.mark.parametrize("becomes", [None, "no program"])
def test_a_program_that_is_gone_or_none_any_more_takes_a_fork_which_says_so(
    tmp_path: Path, fds: list[int], becomes: str | None
) -> None:
    program = tmp_path / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(0o755)
    vfork = learnt(str(program))
    program.unlink() if becomes is None else program.write_text(becomes)

    assert vfork.start(task(str(program)), fds) == 0
