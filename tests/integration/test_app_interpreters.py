"""The interpreter of an app: what it refuses, what becomes of an import, how it is renewed."""

import asyncio
import json
import os
import pwd
import time
from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import dedent

import attrs
import pytest

from cronhare.adapters.process import apps
from cronhare.adapters.process.apps import PythonRunner
from cronhare.domain.retries.outcome import NOT_IMPORTED, Ending, ErrorClass
from cronhare.ports.runner import AttemptResult, Invocation, StopReason
from tests.integration.invocations import HANGS, alive, eventually, until_file
from tests.integration.test_executors_contract import calling

pytestmark = pytest.mark.integration

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")

HEAD = """
from cronhare import App
app = App("shop")

@app.task
def who() -> list[int]:
    import os
    return [os.getpid(), os.getppid()]
"""


@pytest.fixture
async def runner() -> AsyncIterator[PythonRunner]:
    runner = PythonRunner()
    yield runner
    await runner.close()


def who(place: Path, body: str = "", *, executor: str = "fork") -> Invocation:
    """A run of a task of the app that *body* is a part of."""
    (place / "shop.py").write_text(HEAD + dedent(body))
    return calling("who", executor, app="shop:app", folder=place)


def pids(ran: AttemptResult) -> tuple[int, int]:
    """The process that it was, and that one's parent."""
    assert ran.outcome.ending is Ending.SUCCEEDED, (ran.outcome, ran.stderr.head)
    pid, parent = json.loads(ran.report.result or "null")
    return pid, parent


@pytest.mark.parametrize(
    ("begun", "said"),
    [
        (
            "import threading as t\nt.Thread(target=t.Event().wait, name='m', daemon=True).start()",
            "metrics began a thread (m), which no fork can share",
        ),
        ("import socket; link = socket.socket()", "metrics opened a socket"),
        (
            "import subprocess; child = subprocess.Popen(['sleep', '9'])",
            "metrics started a process",
        ),
    ],
)
async def test_what_no_fork_can_share_is_named_once_and_runs_are_processes_then(
    runner: PythonRunner,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    begun: str,
    said: str,
) -> None:
    (tmp_path / "metrics.py").write_text(begun)
    runs = [who(tmp_path, "import metrics") for _ in range(2)]

    parents = [pids(await runner.run(each))[1] for each in runs]

    assert len(set(parents)) == 1  # the warden's
    (warning,) = [each.getMessage() for each in caplog.records if each.name == apps.__name__]
    assert said in warning
    assert "Do that within the tasks" in warning


async def test_what_an_app_has_open_its_runs_have_too(runner: PythonRunner, tmp_path: Path) -> None:
    body = f"""
        log = open({str(tmp_path / "log")!r}, "w", buffering=1)
        print("at import")

        @app.task
        def writes() -> None:
            print("run", file=log)
    """
    asked = who(tmp_path, body)
    ran = await runner.run(calling("writes", "fork", app="shop:app", folder=tmp_path))

    assert asked.task.python is not None
    assert ran.outcome.ending is Ending.SUCCEEDED, ran.stderr.head
    assert ran.stdout.head == ""
    assert (tmp_path / "log").read_text() == "run\n"


@pytest.mark.parametrize("executor", ["fork", "process"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("\ndef made():\n    return {}['a']\n\nmade()", "in made"),
        ("import sys; sys.exit('no settings')", "no settings"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("app = 1", "shop:app is no App"),
    ],
)
async def test_an_import_that_fails_is_a_failure_that_the_next_attempt_may_mend(
    runner: PythonRunner, tmp_path: Path, executor: str, body: str, said: str
) -> None:
    failed = (await runner.run(who(tmp_path, body, executor=executor))).outcome
    mended = await runner.run(who(tmp_path, "# mended", executor=executor))

    assert failed.ending is Ending.FAILED
    assert failed.error is not None
    assert (failed.error.error_class, failed.error.code) == (ErrorClass.TRANSIENT, NOT_IMPORTED)
    assert said in failed.error.message
    assert "importlib" not in failed.error.message
    assert "cronhare/entrypoints" not in failed.error.message
    assert pids(mended)


async def test_an_import_that_takes_too_long_is_ended(
    runner: PythonRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps, "IMPORTING", 1.0)
    body = f"""
        import os, pathlib, time
        pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(os.getpid()))
        time.sleep(300)
    """

    ran = await runner.run(who(tmp_path, body))

    before = time.monotonic()
    await runner.close()

    assert time.monotonic() - before < 4
    assert ran.outcome.error is not None
    assert ran.outcome.error.message == "shop:app was not imported within 1 s"
    importing = int((tmp_path / "pid").read_text())
    assert not alive(importing)


@pytest.mark.parametrize("reason", [StopReason.CANCELLED, StopReason.LEASE_LOST])
async def test_what_waits_for_an_import_can_be_stopped_and_never_begins(
    runner: PythonRunner, tmp_path: Path, reason: StopReason
) -> None:
    body = f"""
        import pathlib, time
        pathlib.Path({str(tmp_path / "begun")!r}).write_text("1")
        while not pathlib.Path({str(tmp_path / "go")!r}).exists():
            time.sleep(0.01)
    """
    stopped, other = who(tmp_path, body), who(tmp_path, body)
    running = [asyncio.create_task(runner.run(each)) for each in (stopped, other)]
    await until_file(tmp_path / "begun")

    known = runner.stop(stopped.execution_id, reason)
    async with asyncio.timeout(HANGS):
        ran = await running[0]
    (tmp_path / "go").touch()

    assert known
    assert ran.outcome.ending is reason.ending
    assert ran.pid is None
    assert pids(await running[1])


async def test_renewed_an_app_is_imported_anew_and_what_runs_goes_on(
    runner: PythonRunner, tmp_path: Path
) -> None:
    body = f"""
        import os, pathlib, time

        @app.task
        def waits() -> list[int]:
            pathlib.Path({str(tmp_path / "begun")!r}).write_text("1")
            while not pathlib.Path({str(tmp_path / "go")!r}).exists():
                time.sleep(0.01)
            return [os.getpid(), os.getppid()]
    """
    first = who(tmp_path, body)
    waits = calling("waits", "fork", app="shop:app", folder=tmp_path)
    running = asyncio.create_task(runner.run(waits))
    await until_file(tmp_path / "begun")
    old = pids(await runner.run(first))[1]

    runner.renew()
    new = pids(await runner.run(who(tmp_path, "# another version")))[1]
    (tmp_path / "go").touch()
    before = pids(await running)[1]

    assert old == before != new
    assert await eventually(lambda: not Path(f"/proc/{old}").exists())


@needs_root
async def test_a_run_may_be_another_user(runner: PythonRunner, tmp_path: Path) -> None:
    body = """
        import os, sys

        @app.task
        def user(n: int) -> list[object]:
            with open(os.environ["CRON_PARAMS_FILE"]) as params:
                environ = open("/proc/self/environ").read()
                return [os.getresuid(), os.environ["USER"], params.read(), environ != ""]
    """
    who(tmp_path, body)
    asked = calling("user", "fork", app="shop:app", folder=tmp_path, n=1)
    task = attrs.evolve(asked.task, user="nobody", cwd=None)

    ran = await runner.run(attrs.evolve(asked, task=task))

    nobody = pwd.getpwnam("nobody").pw_uid
    assert ran.outcome.ending is Ending.SUCCEEDED, ran.stderr.head
    assert json.loads(ran.report.result or "") == [[nobody] * 3, "nobody", '{"n":1}\n', True]
