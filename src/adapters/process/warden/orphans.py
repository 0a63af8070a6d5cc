"""Killing what tasks leave when their warden is killed: no subreaper inherits it then.

The main processes die with the warden (PDEATHSIG). Their descendants are known by their session,
by `CRON_PARAMS_FILE` in their environment, or by a parent that is known. A process that shed all
three is out of reach.
"""

import asyncio
import os
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

_PAUSE = 0.01
_TIMEOUT = 10.0  # seconds; what SIGKILL does not end by then hangs in the kernel


class _Process(NamedTuple):
    pid: int
    parent: int
    session: int


async def kill_orphans(*, sessions: Collection[int], folder: str) -> None:
    """Kill every process of these attempts, until none is left.

    *folder* holds the parameters of these attempts alone. *sessions* are the pids of their main
    processes, alive a moment ago: the kernel reuses a number only after all others, and not while
    its session has a member.
    """
    mark = f"\0CRON_PARAMS_FILE={folder}/".encode()
    timeout = time.monotonic() + _TIMEOUT
    while time.monotonic() < timeout:
        killed = [pid for pid in _find(sessions, mark) if _kill(pid)]
        if not killed:
            return
        await asyncio.sleep(_PAUSE)


def _find(sessions: Collection[int], mark: bytes) -> set[int]:
    alive = list(_processes())
    found = {p.pid for p in alive if p.session in sessions or _is_marked(p.pid, mark)}
    while more := {p.pid for p in alive if p.parent in found} - found:
        found |= more
    return found


def _processes() -> Iterator[_Process]:
    """All processes but zombies, which have ended."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                stat = (path / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            if stat[0] not in (b"Z", b"X"):
                yield _Process(int(path.name), parent=int(stat[1]), session=int(stat[3]))


def _is_marked(pid: int, mark: bytes) -> bool:
    try:
        return mark in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True
