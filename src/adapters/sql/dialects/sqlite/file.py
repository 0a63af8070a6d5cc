"""The file of an SQLite ledger: made for its owner alone, and nothing else is ever changed.

Its path is a setting: there may be a device, a link, or another program's file.
"""

import logging
import os
import sqlite3
import stat
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from cronhare.application.logs import say
from cronhare.domain.texts.echo import shown
from cronhare.ports.ledger import LedgerOutdated, LedgerUnavailable

log = logging.getLogger(__name__)

#: What SQLite puts beside the file, with the file's own mode.
BESIDE: Final = ("-wal", "-shm", "-journal")

#: How each database of SQLite begins; a new one is empty.
HEADER: Final = b"SQLite format 3\0"

#: A handle to what has this name itself: no device notices, and closing it ends no lock of SQLite.
_TOUCHED: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def make_file(path: Path) -> None:
    """Make the file and its folder where they are missing, for this user alone.

    Whoever closes a handle to a file ends all locks that the process has on it, those of SQLite
    among them (fcntl(2)): another process would take itself for the last, and remove the WAL from
    under us. So a ledger that is its owner's alone already is not opened here, and a handle to one
    that is not is kept for as long as the process lives.

    It holds params and output. SQLite gives the files beside it (-wal, -shm) the mode of this
    one. A ledger that others may read, of an earlier version, is closed to them.

    Raises:
        LedgerOutdated: there is something that is no file.
        LedgerUnavailable: it cannot be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        was_there = is_there(path)
        is_private = was_there and not path.stat().st_mode & stat.S_IRWXO
        if is_private and os.access(path, os.R_OK | os.W_OK):
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            head = os.pread(descriptor, len(HEADER), 0)
            ledger = os.fstat(descriptor) if head in {b"", HEADER} else None
        finally:
            if not was_there:
                os.close(descriptor)
    except OSError as error:
        raise LedgerUnavailable(f"making the ledger {path}: {error.strerror}") from error
    if ledger is not None:
        _close(path, ledger)
        for end in BESIDE:
            _close(path.with_name(path.name + end), None)


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


def located(path: Path) -> Path:
    """Give a file's absolute path.

    Raises:
        LedgerUnavailable: the working directory is gone.
    """
    try:
        return path.absolute()
    except FileNotFoundError as error:
        raise LedgerUnavailable(
            f"looking for the ledger {path}: the folder that this command was started in is gone"
        ) from error


def is_there(path: Path) -> bool:
    """Whether there is a file; what SQLite would wait for, or we would change, is refused.

    Raises:
        LedgerOutdated: there is something that is no file: a fifo, a device, a folder.
        LedgerUnavailable: there can be none: the path is too long, or closed to us.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        where = shown(str(located(path)))
        raise LedgerUnavailable(f"looking for the ledger {where}: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise LedgerOutdated(
            f"there is no ledger at {located(path)}, but something that is no plain file. "
            "To use another, set CRON_DATABASE_URL, or database_url in a settings file"
        )
    return True


def _close(file: Path, expected: os.stat_result | None) -> None:
    """Take from all other users what an earlier version, or a umask, has given them.

    *expected* was looked into. What is a link, or open to a group alone, was made so on purpose.
    """
    try:
        touched = os.open(file, _TOUCHED)
    except OSError:  # there is none
        return
    try:
        there = os.fstat(touched)
        is_other = expected is not None and not os.path.samestat(there, expected)
        mode = stat.S_IMODE(there.st_mode)
        if is_other or not stat.S_ISREG(there.st_mode) or not mode & stat.S_IRWXO:
            return
        os.chmod(f"/proc/self/fd/{touched}", mode & stat.S_IRWXU)  # noqa: PTH101
        text = f"{file} was open to every user ({mode:04o}); now it is its owner's alone"
        say(log, logging.WARNING, "ledger.closed", text)
    except OSError as error:
        text = f"{file} is open to every user, and cannot be closed to them: {error.strerror}"
        say(log, logging.WARNING, "ledger.open", text)
    finally:
        os.close(touched)
