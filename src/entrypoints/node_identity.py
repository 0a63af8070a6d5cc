"""The identity of this process as a node, and whether another process of its host lives.

Each command that changes something imports this module, and its page of help needs nothing of it:
what it uses is imported where it is used.
"""

# ruff: noqa: PLC0415 - as said above

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronhare.domain.access import Actor
    from cronhare.domain.nodes import Node
    from cronhare.domain.retries.retry import Holder

_PIDS = Path("/proc/self/ns/pid")


def this_node() -> "Node":
    import secrets

    from cronhare.domain.nodes import Node

    nonce = secrets.token_hex(4)
    return Node(host=_host(), pid=os.getpid(), place=_place() or nonce, nonce=nonce)


def this_holder(node: "Node") -> "Holder":
    """Name a node as one who holds messages, with the boot of its host, if the kernel tells it."""
    from cronhare.adapters.system.host import BOOT_ID
    from cronhare.domain.retries.retry import Holder

    boot = ""
    with suppress(OSError):
        boot = BOOT_ID.read_text(encoding="ascii").strip()[:64]
    return Holder(node=str(node), host=node.host, boot=boot)


def this_version() -> str:
    from importlib.metadata import version

    return version("cronhare")


def this_program() -> str:
    return f"cronhare/{this_version()}"


def this_user() -> str:
    """Name the user of this process by its number, which no variable of the environment changes."""
    import pwd

    from cronhare.domain.texts.printable import printable

    try:
        return printable(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:  # a user without a name, in a container say
        return f"user {os.getuid()}"


def this_actor() -> "Actor":
    """Name the person whose process this is, as far as the system knows: `user@host`."""
    from cronhare.domain.access import LONGEST_ACTOR, Actor, Channel, Scope
    from cronhare.domain.texts.printable import printable

    name = printable(f"{this_user()}@{_host()}")[:LONGEST_ACTOR]
    return Actor(name=name, channel=Channel.CLI, scope=Scope.ADMIN)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _host() -> str:
    """Name the host in characters that every ledger and log can take; a kernel takes any bytes.

    It need not be unique: *place* and *nonce* are.
    """
    import socket

    name = socket.gethostname()
    return "".join(char if char.isprintable() else "?" for char in name) or "?"


def _place() -> str | None:
    """Name our PID namespace, and the boot of the kernel that counts them.

    Containers may share a host name, and each has a PID 1.
    """
    import hashlib

    from cronhare.adapters.system.host import BOOT_ID

    with suppress(OSError):
        named = f"{BOOT_ID.read_text()} {_PIDS.readlink()}"
        return hashlib.sha256(named.encode()).hexdigest()[:8]
    return None
