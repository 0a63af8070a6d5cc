"""What only real processes can do to a runner."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cronhare.adapters.process import attempt
from cronhare.adapters.process.runner import ProcessRunner
from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.ports.runner import Captured, Invocation, StopReason
from tests.integration.invocations import (
    HANGS,
    alive,
    exists,
    invocation,
    shell,
    sleepers,
    unique_sleep,
    until_asleep,
    until_file,
)
from tests.integration.starting import started_by

pytestmark = pytest.mark.integration

SECRETS = {
    "CRON_DATABASE_URL": "mysql+pymysql://cron:canary@db/cron",
    "CRON_BROKER_URL": "amqp://cron:canary@broker",
    "API_TOKEN": "for-this-task",
    "OTHER_TOKEN": "canary",
}


@pytest.fixture(params=["fork", "vfork"])
async def runner(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProcessRunner]:
    async for runner in started_by(request.param, monkeypatch, os.environ | SECRETS):
        yield runner


# Starting


MISSING = "working directory /no/such/folder: No such file or directory"


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (invocation("no-such-command"), "ENOENT", "command not found: no-such-command"),
        (invocation("true", cwd=Path("/no/such/folder")), "ENOENT", MISSING),
    ],
)
async def test_what_cannot_be_started_is_a_permanent_failure_that_names_it(
    runner: ProcessRunner, asked: Invocation, code: str, said: str
) -> None:
    ran = await runner.run(asked)

    assert ran.outcome == Outcome(
        ending=Ending.FAILED,
        error=TaskError(
            message=f"cannot be started: {said}", code=code, error_class=ErrorClass.PERMANENT
        ),
    )
    assert (ran.pid, ran.peak_memory, ran.cpu_seconds) == (None, None, None)


@pytest.mark.parametrize(
    ("first_line", "code", "said"),
    [
        ("#!/no/such/shell\n", "ENOENT", "#! line names is not: '#!/no/such/shell'; a carriage"),
        ("#!/bin/sh\r\n", "ENOENT", "#! line names is not: '#!/bin/sh\\r'; a carriage"),
        ("echo hello\n", "ENOEXEC", "it has no #! line"),
    ],
)
@pytest.mark.parametrize("by_path", [True, False])
async def test_a_script_whose_interpreter_is_missing_says_so(
    runner: ProcessRunner, tmp_path: Path, first_line: str, code: str, said: str, *, by_path: bool
) -> None:
    script = tmp_path / "script"
    script.write_text(first_line)
    script.chmod(0o755)

    command = str(script) if by_path else "script"
    ran = await runner.run(invocation(command, env={"PATH": str(tmp_path)}))

    error = ran.outcome.error
    assert error is not None
    assert (error.error_class, error.code) == (ErrorClass.PERMANENT, code)
    assert said in error.message


async def test_arguments_arrive_untouched(runner: ProcessRunner) -> None:
    arguments = ["two words", "it's", '"quoted"', "$HOME", "*", "", "ünï", "new\nline", "--", "-n"]
    echo = "import json, sys; print(json.dumps(sys.argv[1:]))"

    ran = await runner.run(invocation("python", "-c", echo, *arguments))

    assert json.loads(ran.stdout.head) == arguments


async def test_signals_begin_at_their_defaults_and_no_descriptor_but_four_is_inherited(
    runner: ProcessRunner,
) -> None:
    ran = await runner.run(shell("grep -E '^Sig(Blk|Ign)' /proc/self/status; echo /proc/$$/fd/*"))

    *signals, descriptors = ran.stdout.head.splitlines()
    masks = [int(line.split()[1], 16) for line in signals]
    # 32 and 33 are the C library's own: whoever starts us may leave them ignored, as make does.
    assert [mask & ~(0b11 << 31) for mask in masks] == [0, 0]
    open_ones = [path.rpartition("/")[2] for path in descriptors.split()]
    assert open_ones[:4] == list("0123")
    assert len(open_ones) <= 5  # a shell may keep one for itself


# Parameters and environment


async def test_parameters_come_on_stdin_and_in_a_file_that_only_the_owner_may_read(
    runner: ProcessRunner,
) -> None:
    params = {"text": "ä" * 32 * 1024, "list": [1, None, 2.5]}

    ran = await runner.run(
        shell(
            'cmp - "$CRON_PARAMS_FILE" && cat "$CRON_PARAMS_FILE" >&2 && '
            'stat -c %a "$CRON_PARAMS_FILE" "${CRON_PARAMS_FILE%/*}" && echo "$CRON_PARAMS_FILE"',
            params=params,
        )
    )

    modes_and_path = ran.stdout.head.split()
    assert json.loads(ran.stderr.head + ran.stderr.tail) == params
    assert modes_and_path[:2] == ["600", "711"]
    assert not exists(modes_and_path[2])


async def test_a_task_that_removes_the_parameters_of_all_fails_no_later_one_and_none_stay(
    runner: ProcessRunner,
) -> None:
    clears = await runner.run(shell('rm -rf "${CRON_PARAMS_FILE%/*}"'))
    after = await runner.run(
        shell('cat; touch "$CRON_PARAMS_FILE.new"; echo "${CRON_PARAMS_FILE%/*}"', params={"n": 1})
    )
    await runner.close()

    params, folder = after.stdout.head.splitlines()
    assert clears.outcome.ending is after.outcome.ending is Ending.SUCCEEDED, after
    assert params == '{"n":1}'
    assert not exists(folder)


async def test_our_secrets_stay_ours_in_the_environments_of_task_and_warden(
    runner: ProcessRunner,
) -> None:
    names = ("API_TOKEN", "CRON_DATABASE_URL", "CRON_BROKER_URL", "ABSENT")
    script = "env; tr '\\0' '\\n' < /proc/$PPID/environ; echo read"

    ran = await runner.run(invocation("sh", "-c", script, env={"REGION": "eu"}, pass_env=names))

    lines = ran.stdout.head.splitlines()
    assert "canary" not in ran.stdout.head
    assert "REGION=eu" in lines
    assert lines.count("API_TOKEN=for-this-task") == 1
    assert lines[-1] == "read"


# Output


async def test_each_line_is_logged_in_the_name_of_the_child(
    runner: ProcessRunner, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="cronhare.task")

    ran = await runner.run(
        shell(
            r"printf 'Refreshing 100%%\n\033[31mred\tsea\r\n'; head -c 5000 /dev/zero | tr '\0' x;"
            'echo "{\\"finish\\": $$}" >&3'
        )
    )

    assert {getattr(record, "child", None) for record in caplog.records} == {
        f"Report:RefreshUserToken:{ran.pid}"
    }
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "Process spawned (instant mode)"
    assert messages[-1] == "Process exited successfully (code: 0)"
    assert set(messages[1:-1]) == {
        "Refreshing 100%",
        "\x1b[31mred\tsea",
        "x" * 4096 + " … [line cut at 4 KiB]",
        "Process finished successfully",
    }


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("kill -KILL $$", "SIGKILL: by the kernel, out of memory, unless somebody did"),
        (
            "ulimit -S -t 1; while :; do :; done",
            "SIGXCPU: by the kernel, over its limit of CPU time",
        ),
    ],
)
async def test_an_end_by_the_kernel_is_a_crash_and_says_why(
    runner: ProcessRunner, script: str, reason: str
) -> None:
    outcome = (await runner.run(shell(script))).outcome

    assert outcome.ending is Ending.CRASHED
    assert outcome.error is not None
    assert outcome.error.message == f"killed by signal {reason}"


async def test_the_last_of_what_a_task_reports_is_told_with_its_end(
    runner: ProcessRunner, caplog: pytest.LogCaptureFixture
) -> None:
    lines = (
        '{"result": 1}',
        '{"progress": 0.25, "text": "a"}',
        '{"progress": 0.5}',
        '{"finish": 1}',
        '{"result": {"rows": 2}}',
        '{"result": NaN}',
    )

    ran = await runner.run(shell("".join(f"echo '{line}' >&3;" for line in lines)))

    assert ran.outcome.ending is Ending.SUCCEEDED
    assert (ran.report.progress, ran.report.progress_text) == (0.5, None)
    assert ran.report.result == '{"rows":2}'
    assert "not JSON" in (ran.report.result_problem or "")
    assert "The result is not kept: not JSON" in caplog.text


# Ends


async def test_a_failing_task_is_recorded_with_the_last_lines_of_its_stderr(
    runner: ProcessRunner,
) -> None:
    ran = await runner.run(shell(r"printf 'reading\ntar: \033[2Jgone\r\n \n' >&2; exit 3"))

    error = ran.outcome.error
    assert error is not None
    assert (ran.outcome.ending, ran.outcome.exit_code) == (Ending.FAILED, 3)
    assert error.message == r"exited with code 3: tar: \x1b[2Jgone"
    assert (error.stack or "").startswith("reading\n")
    assert ran.stderr == Captured(head="reading\ntar: \x1b[2Jgone\r\n \n", bytes=25)


async def test_a_failure_that_the_task_reports_outweighs_finish_and_exit_code_0(
    runner: ProcessRunner,
) -> None:
    error = {"message": "gone", "code": "RESOURCE_NOT_FOUND", "stack": "at line 1"}
    failed = json.dumps({"failed": True, "error": error})

    ran = await runner.run(shell(f"""echo '{failed}' >&$CRON_IPC_FD; echo '{{"finish": 1}}' >&3"""))

    assert ran.outcome.ending is Ending.FAILED
    assert ran.outcome.exit_code == 0
    assert ran.outcome.error == TaskError(
        message="gone",
        code="RESOURCE_NOT_FOUND",
        error_class=ErrorClass.PERMANENT,
        stack="at line 1",
    )


async def test_a_lost_lease_overrides_every_other_reason_and_knows_no_grace(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "GRACE", 10 * HANGS)
    ready = tmp_path / "ready"
    stubborn = shell(f"trap '' TERM; echo 1 >{ready}; while :; do sleep 0.1; done")
    running = asyncio.create_task(runner.run(stubborn))
    await until_file(ready)

    runner.stop(stubborn.execution_id, StopReason.CANCELLED)
    runner.stop(stubborn.execution_id, StopReason.LEASE_LOST)

    async with asyncio.timeout(HANGS):
        assert (await running).outcome.ending is Ending.LOST


async def test_what_winds_down_is_killed_only_when_another_reason_follows(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "GRACE", 0.05)
    ready, asked = tmp_path / "ready", tmp_path / "asked"
    slow = shell(
        f"trap 'sleep 0.3; echo 1 >{asked}' TERM; echo 1 >{ready}; while :; do sleep 0.1; done"
    )
    running = asyncio.create_task(runner.run(slow))
    await until_file(ready)

    runner.stop(slow.execution_id, StopReason.WINDING_DOWN)
    await until_file(asked)
    assert not running.done()
    runner.stop(slow.execution_id, StopReason.INTERRUPTED)

    assert (await running).outcome.ending is Ending.INTERRUPTED


async def test_memory_and_cpu_time_are_recorded(runner: ProcessRunner) -> None:
    burn = "x = bytearray(50_000_000); sum(range(2_000_000))"

    ran = await runner.run(invocation("python", "-c", burn))

    assert ran.peak_memory is not None
    assert 50_000_000 < ran.peak_memory < 200_000_000
    assert ran.cpu_seconds is not None
    assert 0.01 < ran.cpu_seconds < 10


# What stays behind


@pytest.mark.parametrize(
    "escape",
    [
        "sleep {} &",
        "setsid sleep {} &",
        "(setsid setsid sleep {} &) &",
        "(setsid sh -c 'sleep {} & exec sleep {}' <&- >&- 2>&- 3>&- &)",
        "env -i PATH=\"$PATH\" setsid sh -c 'sleep {} & sleep {}' &",
        "setsid sh -c 'trap \"\" TERM HUP; sleep {} & (setsid sleep {} &); wait' &",
    ],
)
async def test_nothing_of_an_attempt_outlives_it_and_nothing_of_it_is_waited_for(
    runner: ProcessRunner, escape: str
) -> None:
    seconds = unique_sleep()
    launched = f"{escape.replace('{}', seconds)}\n{until_asleep(seconds)}"

    async with asyncio.timeout(HANGS):  # they would sleep for five minutes
        ran = await runner.run(shell(launched))

    assert ran.outcome.ending is Ending.SUCCEEDED
    assert ran.left_running
    assert sleepers(seconds) == set()


async def test_what_has_ended_before_its_task_was_not_left_running(runner: ProcessRunner) -> None:
    unwaited = "import subprocess as s, time; s.Popen(['sleep', '60']).kill(); time.sleep(0.1)"

    leaving = [runner.run(shell("sleep 60 & sleep 60 &")) for _ in range(5)]
    ended = [runner.run(invocation("python", "-c", unwaited)) for _ in range(5)]
    ran = await asyncio.gather(*leaving, *ended)

    assert [each.left_running for each in ran] == [2] * 5 + [0] * 5


async def test_the_daemons_of_a_running_task_live_until_it_ends(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    seconds, ready, go = unique_sleep(), tmp_path / "ready", tmp_path / "go"
    daemon = f"(setsid sleep {seconds} &); {until_asleep(seconds)}"
    waits = shell(f"{daemon}; echo 1 >{ready}; while ! test -e {go}; do sleep 0.01; done")
    running = asyncio.create_task(runner.run(waits))
    await until_file(ready)

    await asyncio.gather(*(runner.run(invocation("true")) for _ in range(5)))
    during = sleepers(seconds)
    go.touch()
    await running

    assert len(during) == 1
    assert sleepers(seconds) == set()


async def test_a_cancelled_run_leaves_nothing(runner: ProcessRunner, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    running = asyncio.create_task(runner.run(shell(f"echo $$ >{pid_file}; sleep 300")))
    pid = int(await until_file(pid_file))

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert not alive(pid)
