"""Tasks that run as another user, and what tasks see of the process that runs them."""

import asyncio
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from cronhare.adapters.process.runner import ProcessRunner
from cronhare.domain.retries.outcome import Ending, ErrorClass
from cronhare.ports.runner import Invocation, StopReason
from tests.integration.invocations import (
    exists,
    invocation,
    sleepers,
    unique_sleep,
    until_asleep,
)
from tests.integration.shell import Shell, clean_environment

pytestmark = pytest.mark.integration

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")

NOBODY, DAEMON = "nobody", "daemon"


def as_user(user: str, script: str, *, params: object = None, timeout: float = 20.0) -> Invocation:
    command = ("sh", "-c", script)
    return invocation(*command, params=params, timeout=timeout, user=user)


async def test_an_unknown_user_is_a_permanent_failure(runner: ProcessRunner) -> None:
    ran = await runner.run(as_user("no-such-user", "true"))

    assert ran.outcome.ending is Ending.FAILED
    assert ran.outcome.error is not None
    assert ran.outcome.error.error_class is ErrorClass.PERMANENT
    assert "this host has no user no-such-user" in ran.outcome.error.message


@needs_root
async def test_a_task_is_that_user_with_its_groups_home_and_name_and_no_rights_of_the_worker(
    runner: ProcessRunner,
) -> None:
    known = pwd.getpwnam(NOBODY)

    ran = await runner.run(
        as_user(
            NOBODY,
            'id -u; id -ru; id -g; id -G; echo "$HOME $USER $LOGNAME $SHELL"; '
            "grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status",
        )
    )

    lines = ran.stdout.head.splitlines()
    groups = " ".join(map(str, os.getgrouplist(NOBODY, known.pw_gid)))
    assert lines[:3] == [str(known.pw_uid), str(known.pw_uid), str(known.pw_gid)]
    assert lines[3].split() == groups.split()
    assert lines[4] == f"{known.pw_dir} {NOBODY} {NOBODY} /bin/sh"
    assert {int(line.split()[1], 16) for line in lines[5:]} == {0}, "the worker's rights"


@needs_root
async def test_its_parameters_are_for_that_user_alone(runner: ProcessRunner) -> None:
    reads = 'cmp - "$CRON_PARAMS_FILE" && stat -c "%a %U" "$CRON_PARAMS_FILE"'
    holds = 'echo "$CRON_PARAMS_FILE"; sleep 300'
    holding = as_user(NOBODY, holds, params={"secret": 1})
    running = asyncio.create_task(runner.run(holding))
    while runner.written(holding.execution_id) is None:  # noqa: ASYNC110 - it has no events
        await asyncio.sleep(0.01)
    ran = await runner.run(as_user(NOBODY, reads, params={"n": 1}))
    spying = 'cd "${CRON_PARAMS_FILE%/*}"; for n in $(seq 9); do cat $n.json; done; ls'
    spies = await runner.run(as_user(DAEMON, spying))
    runner.stop(holding.execution_id, StopReason.CANCELLED)
    path = (await running).stdout.head.strip()

    assert ran.outcome.ending is Ending.SUCCEEDED
    assert ran.stdout.head.splitlines() == [f"600 {NOBODY}"]
    assert "secret" not in spies.stdout.head
    assert spies.outcome.ending is Ending.FAILED
    assert path
    assert not exists(path)


@needs_root
async def test_it_writes_and_opens_its_output_and_cannot_touch_us(runner: ProcessRunner) -> None:
    script = 'echo to the screen >/dev/stderr && echo "{\\"progress\\": 1}" >&3; kill -STOP $PPID'

    ran = await runner.run(as_user(NOBODY, script))

    assert ran.stderr.head.startswith("to the screen\n")
    assert ran.outcome.exit_code == 1
    assert "not permitted" in ran.stderr.head.lower()


@needs_root
async def test_it_is_ended_at_its_timeout_with_all_that_it_started(runner: ProcessRunner) -> None:
    seconds = unique_sleep()
    script = f"(setsid sleep {seconds} &); {until_asleep(seconds)}; trap '' TERM; sleep {seconds}"

    ran = await runner.run(as_user(NOBODY, script, timeout=1.0))

    assert ran.outcome.ending is Ending.TIMED_OUT
    assert sleepers(seconds) == set()


#: A worker without the rights that it needs, though it is root.
HUMBLE = """
import asyncio, ctypes, os, sys
if len(sys.argv) == 1:
    for capability in (5, 6, 7):  # to kill others, to become another group, another user
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP: gone with the exec
    os.execv(sys.executable, [*sys.orig_argv, "without"])
from cronhare.adapters.process.runner import ProcessRunner
from tests.integration.invocations import invocation

async def main():
    runner = ProcessRunner()
    for user in ("daemon", "root"):
        ran = await runner.run(invocation("id", "-un", user=user))
        print(ran.outcome.error.message if ran.outcome.error else ran.stdout.head.strip())
    await runner.close()

asyncio.run(main())
"""


def output_of(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


@needs_root
def test_a_worker_that_may_not_says_what_it_needs() -> None:
    refused, itself = output_of(HUMBLE).splitlines()

    assert "user daemon: the worker has to be root" in refused
    assert itself == "root"


JOBS = """
[tasks.look]
id = 1
user = "no-such-user"
command = ["true"]
"""


def test_check_refuses_a_user_that_this_host_has_not(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write(JOBS)

    said = shell("check", "jobs.toml")

    assert said.status == 2
    assert "tasks.look: user: this host has no user no-such-user" in said.err


#: What `up`, `scheduler` and `worker` are before anything of theirs begins.
BEGINS = """
import asyncio, ctypes
from cronhare.entrypoints.processes.lifetime import run_privately

async def nothing():
    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE

run_privately(nothing())
"""


def test_what_lives_long_is_private_before_it_begins() -> None:
    assert output_of(BEGINS) == "0\n"
