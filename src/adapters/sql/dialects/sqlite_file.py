"""The file of an SQLite ledger: made for its owner alone, opened, copied, and locked."""

import errno
import fcntl
import os
import sqlite3
import struct
import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final

from cronhare.domain.texts.printable import shown
from cronhare.ports import LedgerOutdated, LedgerUnavailable

from ..dialect import UPGRADE

#: So long a statement waits for another process that writes: far above a commit, below a
#: lease of 30 s.
BUSY_SECONDS: Final = 10.0


def is_there(path: Path) -> bool:
    """Whether there is a file."""
    try:
        return path.exists()
    except OSError as error:
        where = shown(str(path.absolute()))
        raise LedgerUnavailable(f"looking for the ledger {where}: {error.strerror}") from error


def make_file(path: Path) -> None:
    """Make the file and its folder where they are missing, for this user alone.

    It holds params and output. SQLite gives the files beside it (-wal, -shm) the mode of this one.

    Whoever closes a handle to a file ends all locks that the process has on it, those of SQLite
    among them (fcntl(2)): another process would take itself for the last, and remove the WAL from
    under us. So a file that is there is not opened.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_there(path):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise LedgerUnavailable(f"making the ledger {path}: {error.strerror}") from error


def connect(path: Path) -> sqlite3.Connection:
    """Open a file that is there: a reader makes none."""
    if not is_there(path):
        raise LedgerOutdated(
            f"there is no ledger at {path.absolute()}. To use another, set CRON_DATABASE_URL, or "
            f"database_url in a settings file; to make one here: {UPGRADE}, or start `cronhare up`"
        )
    uri = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)


def prepare(connection: sqlite3.Connection) -> None:
    """Set up a new connection.

    WAL lets readers go on beside the writer. With synchronous=NORMAL a commit outlives kill -9
    too, but after a power loss the last ones may be gone: their instants would be claimed, and
    run, a second time. FULL flushes the log with each commit: 0.1 ms on an idle disk, a few on a
    busy one.
    """
    # One row with a text that is no UTF-8 would keep all the others from being read.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    connection.isolation_level = None  # transactions begin where we say, not where the driver does
    cursor = connection.cursor()
    _into_wal(cursor)
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _into_wal(cursor: sqlite3.Cursor) -> None:
    """Switch the file to WAL. The switch does not wait for others by itself, so we do."""
    give_up_at = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            [mode] = cursor.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorname.startswith("SQLITE_BUSY")
            if not busy or time.monotonic() > give_up_at:
                raise
            time.sleep(0.01)
        else:
            return


def copy_to(path: Path, target: Path) -> int:
    """Copy a ledger that others may be writing to a new file, its owner's alone; answers its bytes.

    The copy is one moment of the ledger: `VACUUM INTO` reads in one transaction, and syncs nothing.
    Until it is whole it is *target*.part: what is cut off opens as a sound ledger without tables.

    Raises:
        OSError: the copy cannot be made, or something has its name.
        LedgerUnavailable: the ledger cannot be read, or is not sound; no copy is left.
    """
    part = target.parent / f"{target.name}.part"
    if os.path.lexists(target) or part.resolve() == path.resolve():
        raise FileExistsError("File exists")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor) as file, ExitStack() as undo:
        undo.callback(part.unlink, missing_ok=True)
        try:
            with closing(sqlite3.connect(path, isolation_level=None)) as ledger:
                ledger.execute("VACUUM INTO ?", (str(part),))
            with closing(sqlite3.connect(part)) as copy:
                faults = [text for (text,) in copy.execute("PRAGMA integrity_check(5)")]
        except sqlite3.Error as error:
            raise LedgerUnavailable(f"copying the ledger {path}: {error}") from error
        if faults != ["ok"]:
            raise LedgerUnavailable(f"copying the ledger {path}: {'; '.join(faults)}")
        os.fsync(file.fileno())
        target.touch(mode=0o600, exist_ok=False)  # nothing is written over
        part.replace(target)
        return os.fstat(file.fileno()).st_size


# The lock of a `cronhare up` that is alone on a ledger, as no other process hears of its broker. It
# is on the ledger itself, whatever names lead to it, and leaves nothing behind: a byte far beyond
# the largest file of SQLite, by a lock of the open file (fcntl(2), F_OFD_SETLK), which no other
# handle to the file ends, as it ends SQLite's own.

#: Where the byte is.
_BEYOND: Final = 2**62


class Occupied(Exception):
    """Another process works on this ledger, and one of the two wants to do so alone."""


def occupy(ledger: Path, *, alone: bool) -> int:
    """Take the ledger for this process, until it ends, however that happens; make it if need be.

    Unless *alone*, other processes may share it. Answers the descriptor to be kept open.
    """
    make_file(ledger)
    try:
        descriptor = os.open(ledger, os.O_RDWR | os.O_CLOEXEC)
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
