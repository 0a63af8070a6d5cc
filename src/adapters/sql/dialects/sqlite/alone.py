"""The lock of a `cronhare up` that is alone on a ledger: no other process hears of its broker.

The lock is on the ledger itself, whatever names lead to it, and leaves nothing behind: a byte far
beyond the largest file of SQLite, by a lock of the open file (fcntl(2), F_OFD_SETLK), which no
other handle to the file ends, as it ends SQLite's own.
"""

import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from cronhare.ports.ledger import LedgerUnavailable

from .file import make_file

#: Where the byte is.
_BEYOND: Final = 2**62


class Occupied(Exception):
    """Another process works on this ledger, and one of the two wants to do so alone."""


def occupy(ledger: Path, *, alone: bool) -> int:
    """Take the ledger for this process, until it ends, however that happens; make it if need be.

    Unless *alone*, other processes may share it. Answers the descriptor to be kept open.

    Raises:
        Occupied: see there.
        LedgerOutdated: there is something that is no file.
        LedgerUnavailable: it can be neither made nor locked.
    """
    make_file(ledger)
    try:
        descriptor = os.open(ledger, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise LedgerUnavailable(f"opening the ledger {ledger}: {error.strerror}") from error
    try:
        kind = fcntl.F_WRLCK if alone else fcntl.F_RDLCK
        lock = struct.pack("hhqqi4x", kind, os.SEEK_SET, _BEYOND, 1, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
    except OSError as error:
        os.close(descriptor)
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            raise Occupied from error
        raise LedgerUnavailable(f"locking the ledger {ledger}: {error.strerror}") from error
    return descriptor
