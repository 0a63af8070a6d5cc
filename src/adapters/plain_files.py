"""Reading files that people name: a path may be anything, and nothing may keep us waiting."""

import errno
import os
import stat
from pathlib import Path


def read_plain_file(path: Path, *, most: int) -> bytes:
    """Give the first *most* + 1 bytes of a file: who gets them all knows that it is too long.

    Opening waits for nobody: a fifo would keep a process until somebody writes into it. The error
    has the path as its `filename`, whichever step failed.

    Raises:
        OSError: it cannot be read, or is no plain file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            _refuse_what_is_no_file(os.fstat(descriptor).st_mode)
            with open(descriptor, "rb", closefd=False) as file:
                return _all_of(file.read(most + 1))
        finally:
            os.close(descriptor)
    except OSError as error:
        error.filename = str(path)
        raise


def _refuse_what_is_no_file(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise _no_plain_file()


def _all_of(content: bytes | None) -> bytes:
    """Refuse what would have kept us waiting: some of the kernel's logs pass for plain files."""
    if content is None:
        raise _no_plain_file()
    return content


def _no_plain_file() -> OSError:
    return OSError(errno.EINVAL, "it is no plain file")
