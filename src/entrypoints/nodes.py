"""Nodes of this host: who we are, and who is no more."""

import os
import socket
from collections.abc import Collection, Iterable


def node_name() -> str:
    """Name this process as the seeds do: hostname and PID."""
    return f"{socket.gethostname()}-{os.getpid()}"


def departed(owners: Iterable[str], *, ourselves: bool) -> Collection[str]:
    """Tell which nodes of this host are no more: their PID is nobody's.

    With *ourselves* our own name counts as such: true before we have begun anything, for in a
    container a predecessor may well have had our PID.
    """
    host = f"{socket.gethostname()}-"
    pids = {owner: owner.removeprefix(host) for owner in owners if owner.startswith(host)}
    return [
        owner
        for owner, pid in pids.items()
        if pid.isdigit() and (ourselves if int(pid) == os.getpid() else not _lives(int(pid)))
    ]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
