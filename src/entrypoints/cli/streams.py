"""The three standard streams, made such that no reader and no writer at their ends ends us.

A stream may be closed, its reader gone, its disk full, its encoding unable to say what is printed.
"""

import fcntl
import io
import os
import sys
from contextlib import suppress


class OutputLost(Exception):
    """What was printed went nowhere. Not an OSError: libraries catch those of a broken pipe."""

    def __init__(self, cause: OSError) -> None:
        """Keep the cause."""
        self.cause = cause
        super().__init__(f"standard output: {cause.strerror or cause}")


class _StandardOutput(io.FileIO):
    """Standard output, whose failures are of a class of their own."""

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            raise OutputLost(error) from error


def prepare() -> None:
    """Take the standard streams into our hands, before anything is printed or opened."""
    # The lowest number that is free is given: in this order each gets its own. What is written to
    # a closed standard output fails then as well, and not into a file that was opened meanwhile.
    for number, how in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        if not _is_open(number):
            os.open(os.devnull, how)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout = _text(_StandardOutput(1, "w", closefd=False), encoding)
    if sys.stderr is None:
        sys.stderr = _text(io.FileIO(2, "w", closefd=False), "utf-8")


def release() -> None:
    """Leave nothing that could fail when the interpreter empties its streams."""
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            stream.flush()
        except (OSError, OutputLost, ValueError):
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _is_open(number: int) -> bool:
    try:
        fcntl.fcntl(number, fcntl.F_GETFD)
    except OSError:
        return False
    return True


def _text(raw: io.FileIO, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=raw.isatty(),
    )
