"""A bell beside the ledger's file: a fifo on which `cronhare up` waits, and which others write to.

Whatever is written to it says the same: look now. A fifo that a `kill -9` leaves behind keeps
nothing, and serves the next one.
"""

import logging
import os
import select
import stat
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cronhare.application.logs import say
from cronhare.domain.execution import Execution

log = logging.getLogger(__name__)

#: What the fifo's name adds to the ledger's.
SUFFIX: Final = "-bell"

#: So many bytes are taken with one look; what is left rings again.
MOST_AT_ONCE: Final = 65_536

_OPEN: Final = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def beside(ledger: Path) -> Path:
    """Give the place of a ledger's fifo, whatever name leads to the ledger.

    Raises:
        OSError: the working directory is gone.
    """
    ledger = Path(os.path.realpath(ledger))
    return ledger.with_name(ledger.name + SUFFIX)


class FifoBell:
    """Rings by a byte. Satisfies `BellPort`. Without a listener nothing happens."""

    head_start = timedelta(0)

    def __init__(self, ledger: str) -> None:
        self._ledger = Path(ledger)

    def ring(self, executions: Sequence[Execution], *, now: datetime) -> None:  # noqa: ARG002
        if not executions:
            return
        with suppress(OSError):  # nobody listens, or it is full: then it rings already
            descriptor = os.open(beside(self._ledger), os.O_WRONLY | _OPEN)
            try:
                if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    os.write(descriptor, b"\n")
            finally:
                os.close(descriptor)


class FifoListener:
    """The fifo's reading end, for one thread that waits; others may `wake` it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor  # kept until the process ends
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Wait for a ring, but not for longer; what rang before counts. Says whether it rang."""
        if not self._poll.poll(seconds * 1_000):
            return False
        with suppress(OSError):
            return bool(os.read(self._descriptor, MOST_AT_ONCE))
        return False  # somebody else has read it

    def wake(self) -> None:
        with suppress(OSError):  # it is full: nobody waits
            os.write(self._descriptor, b"\n")

    def remove(self) -> None:
        with suppress(OSError):
            self._path.unlink()


def listen(ledger: str) -> FifoListener | None:
    """Begin to listen beside a ledger; None, with a line in the log, if that cannot be."""
    path = Path(ledger)
    try:
        path = beside(path)
        with suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        return FifoListener(path, _reading_end(path))
    except OSError as error:
        text = f"What is run by hand begins up to 5 s late: {path}: {error.strerror}"
        say(log, logging.WARNING, "bell.silent", text)
        return None


def _reading_end(path: Path) -> int:
    """Open the fifo; for writing, too, so that it has no end when a writer leaves.

    Raises:
        OSError: it cannot be opened, or is something else.
    """
    descriptor = os.open(path, os.O_RDWR | _OPEN)
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "there is something else in the place of its fifo: take it away")
    return descriptor
