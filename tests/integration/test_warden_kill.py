"""SIGKILL to the worker, to the warden: no process of a task may be left behind."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.invocations import (
    alive,
    sleepers,
    unique_sleep,
    until_asleep,
    until_file,
)

pytestmark = pytest.mark.integration

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


def family(seconds: str, ready: Path) -> str:
    """A task with every kind of relative; *ready* then tells its pid, warden and params file."""
    return (
        f"sleep {seconds} &\n"
        f"setsid sleep {seconds} &\n"
        f"(setsid sh -c 'sleep {seconds} & sleep {seconds}' <&- >&- 2>&- &)\n"
        f"{until_asleep(seconds)}\n"
        f'echo "$$ $PPID $CRON_PARAMS_FILE" >{ready}.new; mv {ready}.new {ready}\n'
        f"trap '' TERM; sleep {seconds}"
    )


async def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it comes true within five seconds."""
    for _ in range(500):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return False


@pytest.fixture
def worker() -> Callable[[str], "subprocess.Popen[bytes]"]:
    def start(script: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-c", WORKER, script],
            cwd=ROOT,
            start_new_session=True,
        )

    return start


async def test_a_task_dies_with_its_warden_even_if_no_worker_can_see_to_it(
    worker: Callable[[str], "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    clears = 'rm -r "${CRON_PARAMS_FILE%/*}"'  # as nobody is left to do it
    with worker(f'{clears}; echo "$$ $PPID" >{ready}; while :; do sleep 0.1; done') as process:
        task, warden = map(int, (await until_file(ready)).split())

        process.send_signal(signal.SIGSTOP)
        os.kill(warden, signal.SIGKILL)
        died = await eventually(lambda: not alive(task))
        process.kill()

    assert died


async def test_a_worker_that_forked_without_exec_leaves_nothing_either(tmp_path: Path) -> None:
    """The copy holds the worker's end of the line open; the warden must see its end by itself."""
    seconds, ready, copy = unique_sleep(), tmp_path / "ready", tmp_path / "copy"
    forks = WORKER.replace(
        "await ProcessRunner().run(shell(sys.argv[1]))",
        "running = asyncio.create_task(ProcessRunner().run(shell(sys.argv[1])))\n"
        "    await asyncio.sleep(0)\n"
        "    import os, pathlib, time\n"
        "    if not (pid := os.fork()):\n"
        "        time.sleep(30)\n"
        "        os._exit(0)\n"
        "    pathlib.Path(sys.argv[2]).write_text(str(pid))\n"
        "    await running",
    )
    arguments = [sys.executable, "-c", forks, family(seconds, ready), str(copy)]
    with subprocess.Popen(arguments, cwd=ROOT) as process:  # noqa: ASYNC220 - to be killed
        _, warden, _ = (await until_file(ready)).split()

        process.kill()

    assert await eventually(lambda: not alive(int(warden)))
    assert sleepers(seconds) == set()
    os.kill(int(copy.read_text()), signal.SIGKILL)


async def test_a_ctrl_c_at_the_terminal_is_for_the_worker_alone(
    worker: Callable[[str], "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    with worker(f'echo "$$ $PPID" >{ready}; sleep 300') as process:
        task, warden = map(int, (await until_file(ready)).split())

        sessions = {os.getsid(pid) for pid in (process.pid, warden, task)}
        process.kill()

    assert sessions == {process.pid, warden, task}
