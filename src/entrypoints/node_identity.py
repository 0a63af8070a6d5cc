"""This process as a node, and what it can know of the others on its host."""

import hashlib
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from cronhare.adapters.system.boot import BOOT_ID
from cronhare.domain.nodes import Node

_PIDS = Path("/proc/self/ns/pid")


def this_node() -> Node:
    """Name this process, once in its life."""
    nonce = secrets.token_hex(4)
    return Node(host=_host(), pid=os.getpid(), place=_place() or nonce, nonce=nonce)


def is_alive(pid: int) -> bool:
    """Tell whether a PID is somebody's in our PID namespace."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _host() -> str:
    """Name the host in characters that every ledger and log can take.

    A kernel takes any bytes. It need not be unique: *place* and *nonce* are.
    """
    name = socket.gethostname()
    return "".join(char if char.isprintable() else "?" for char in name) or "?"


def _place() -> str | None:
    """Name the PID namespace that we are in, and the boot of the kernel that counts them.

    The host name does not: containers may share one, and each has a PID 1.
    """
    with suppress(OSError):
        named = f"{BOOT_ID.read_text()} {_PIDS.readlink()}"
        return hashlib.sha256(named.encode()).hexdigest()[:8]
    return None
