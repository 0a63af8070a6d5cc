"""Reading files that people name: the path may be of anything, and reading must not block."""

import errno
import os
import stat
from pathlib import Path


def read_plain_file(path: Path, *, most: int) -> bytes:
    """Give the first *most* + 1 bytes of a file: if all of them come, it is too long.

    Opening does not block, as it would on a fifo without a writer. The error has the path as its
    `filename`, whichever step failed.

    Raises:
        OSError: it cannot be read, or is no plain file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            content: bytes | None = None
            if stat.S_ISREG(mode):
                with open(descriptor, "rb", closefd=False) as file:
                    content = file.read(most + 1)
            if content is None:  # None was read where it would block, as in some logs of the kernel
                raise OSError(errno.EINVAL, "it is no plain file")
            return content
        finally:
            os.close(descriptor)
    except OSError as error:
        error.filename = str(path)
        raise
