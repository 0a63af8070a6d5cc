"""What a task can do to its neighbours by what it leaves in its folder."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from cronhare.adapters.process.folders.folder import Folder
from cronhare.adapters.process.runner import ProcessRunner
from cronhare.domain.retries.outcome import Ending
from tests.integration.invocations import alive, exists, invocation, shell, until_file

pytestmark = pytest.mark.integration

#: Seconds after which something hangs, however busy the machine.
HANGS = 60.0

#: Goes to the folder, tells it, and makes folders in one another: twice as many as Python's
#: stack takes, and the name of the last is longer than a path may be.
DEEP = """cd "${CRON_PARAMS_FILE%/*}" && pwd && d=$(printf 'd/%.0s' $(seq 1100)) &&
    mkdir -p $d && (cd -P $d && mkdir -p $d && touch $d/last) || exit 1
"""
WIDE = """cd "${CRON_PARAMS_FILE%/*}" && pwd && seq 20000 | xargs touch
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


@pytest.fixture
async def runner() -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    yield runner
    await runner.close()


async def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it comes true before something hangs."""
    end = time.monotonic() + HANGS
    while not condition() and time.monotonic() < end:  # noqa: ASYNC110 - others do it
        await asyncio.sleep(0.01)
    return condition()


async def test_a_deep_folder_and_a_killed_warden_stop_nobody_for_ever(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    neighbour = asyncio.create_task(runner.run(shell(f"echo 1 >{begun}; sleep 300")))
    await until_file(begun)
    async with asyncio.timeout(HANGS):
        ran = await runner.run(shell(f"{DEEP} kill -KILL $PPID; sleep 300", timeout=HANGS))
        beside = await neighbour
        after = await runner.run(invocation("true"))
    folder = ran.stdout.head.strip()

    assert ran.outcome.ending is beside.outcome.ending is Ending.LOST
    assert after.outcome.ending is Ending.SUCCEEDED
    assert folder
    assert await eventually(lambda: not exists(str(Path(folder).parent)))


@pytest.mark.parametrize("user", [None, pytest.param("nobody", marks=needs_root)])
@pytest.mark.parametrize("script", [DEEP, WIDE], ids=["deep", "wide"])
async def test_a_task_that_leaves_a_deep_or_wide_folder_ends_as_it_ended(
    runner: ProcessRunner, script: str, user: str | None
) -> None:
    ran = await runner.run(invocation("sh", "-c", script, timeout=HANGS, user=user))
    folder = ran.stdout.head.strip()

    assert ran.outcome.ending is Ending.SUCCEEDED, ran
    assert folder
    assert await eventually(lambda: not exists(folder))


async def test_a_killed_worker_leaves_no_deep_folder(tmp_path: Path) -> None:
    """Its warden removes it."""
    ready = tmp_path / "ready"
    worker = (
        "import asyncio, sys\n"
        "from cronhare.adapters.process.runner import ProcessRunner\n"
        "from tests.integration.invocations import shell\n"
        "asyncio.run(ProcessRunner().run(shell(sys.argv[1])))"
    )
    script = f"{DEEP} echo $PPID $PWD >{ready}.new; mv {ready}.new {ready}; sleep 300"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", worker, script, cwd=Path(__file__).parents[2]
    )
    assert await eventually(ready.exists)
    warden, folder = (await until_file(ready)).split()
    process.send_signal(signal.SIGKILL)
    await process.wait()

    assert await eventually(lambda: not exists(str(Path(folder).parent)))
    assert await eventually(lambda: not alive(int(warden)))


async def test_a_link_out_of_the_folder_is_not_followed_and_closed_folders_stop_nothing(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    script = (
        f'cd "${{CRON_PARAMS_FILE%/*}}" && pwd && mkdir -p a/b/c && touch a/b/c/file && '
        f"ln -s {outside} out && ln -s {outside} a/b/out && ln -s / a/root && chmod 000 a/b a"
    )
    ran = await runner.run(shell(script))
    folder = ran.stdout.head.strip()

    assert ran.outcome.ending is Ending.SUCCEEDED
    assert (outside / "kept").exists()
    if os.geteuid() == 0:
        assert await eventually(lambda: not exists(folder))
        assert (outside / "kept").exists()


async def test_a_task_that_removes_the_folders_of_all_fails_no_later_one(
    runner: ProcessRunner,
) -> None:
    script = 'rm -rf "${CRON_PARAMS_FILE%/*/*}"'
    await runner.run(invocation("true"))
    clears = await runner.run(shell(script))
    after = await runner.run(invocation("cat", params={"n": 1}))

    assert clears.outcome.ending is after.outcome.ending is Ending.SUCCEEDED, after
    assert after.stdout.head == '{"n":1}\n'


@needs_root
async def test_a_given_folder_is_not_opened_by_name_again(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A neighbour of the same user, as quick as can be, puts a link in the place of the params."""
    secret, hand_over = tmp_path / "secret", Folder.hand_over
    secret.write_text("canary")

    def give_and_lose(folder: Folder, uid: int, gid: int, *, params: int) -> None:
        hand_over(folder, uid, gid, params=params)
        Path(folder.params_file).unlink()
        Path(folder.params_file).symlink_to(secret)

    monkeypatch.setattr(Folder, "hand_over", give_and_lose)
    ran = await runner.run(invocation("cat", user="nobody", params={"n": 1}))

    assert ran.stdout.head == '{"n":1}\n'
