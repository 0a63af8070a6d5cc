"""Invocations to run, and a look at the processes that they leave."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath

import pytest

from cronhare.adapters.process import attempt as running
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.ports.runner import Invocation

_ids = itertools.count(1)

#: Seconds after which something hangs, however busy the machine.
HANGS = 60.0


def invocation(
    *command: str,
    params: object = None,
    attempt: int = 1,
    deaths: int = 0,
    missed: int = 0,
    timeout: float = 20.0,
    cwd: PurePath | None = None,
    env: Mapping[str, str] | None = None,
    pass_env: tuple[str, ...] = (),
    user: str | None = None,
) -> Invocation:
    return Invocation(
        execution_id=next(_ids),
        execution_key="cron-2025-12-12-8-0",
        scheduler_id=16,
        schedule_name="nightly",
        attempt=attempt,
        deaths=deaths,
        due_at=datetime(2025, 12, 12, 8, tzinfo=UTC),
        fence=16_000_000 + attempt,
        missed=missed,
        params={} if params is None else params,
        task=Task(
            name="refresh-user-token",
            ref=TaskRef("report", 25),
            command=command,
            timeout=timedelta(seconds=timeout),
            cwd=cwd,
            env=env or {},
            pass_env=pass_env,
            user=user,
        ),
    )


def shell(script: str, *, params: object = None, timeout: float = 20.0) -> Invocation:
    return invocation("sh", "-c", script, params=params, timeout=timeout)


class ClockPutForward:
    """The loop's clock, which leaps over minutes: no machine is too busy to begin in them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        real, extend = loop.time, running.Attempt._extend_deadline
        self._skipped = 0.0
        self._extended = asyncio.Queue[None]()

        def extending(attempt: running.Attempt) -> None:
            extend(attempt)
            self._extended.put_nowait(None)

        monkeypatch.setattr(loop, "time", lambda: real() + self._skipped)
        monkeypatch.setattr(running.Attempt, "_extend_deadline", extending)

    async def leap_once_begun(self, seconds: float) -> None:
        """Wait until the timeout begins, with an attempt or with its progress, and then leap."""
        async with asyncio.timeout(HANGS):
            await self._extended.get()
        self._skipped += seconds
        await asyncio.sleep(0.01)  # what is due by now takes place


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def sleepers(seconds: str) -> set[int]:
    """The processes that run `sleep` with this argument, whatever environment they have."""
    return {pid for pid, command in _commands() if command[-2:] == [b"sleep", seconds.encode()]}


def _commands() -> Iterator[tuple[int, list[bytes]]]:
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and alive(int(path.name)):
            try:
                command = (path / "cmdline").read_bytes()
            except OSError:
                continue
            yield int(path.name), command.rstrip(b"\0").split(b"\0")


def unique_sleep() -> str:
    """How long nobody else sleeps, so that our sleepers can be told."""
    return f"{300 + time.monotonic_ns() % 10**9 / 10**7:.9f}"


def until_asleep(seconds: str) -> str:
    """A line of shell that waits until somebody sleeps that long."""
    # The brackets: or else grep would find itself.
    return f"until grep -qszx '[{seconds[0]}]{seconds[1:]}' /proc/[0-9]*/cmdline; do :; done"


async def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it comes true within five seconds."""
    for _ in range(500):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return False


async def until_file(path: Path) -> str:
    """Wait for a file that a task writes, and read it."""
    async with asyncio.timeout(10):
        while not (text := _read(path)):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.005)
    return text


def exists(path: str) -> bool:
    return Path(path).exists()


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
