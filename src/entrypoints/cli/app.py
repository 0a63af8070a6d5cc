"""The command line's beginning, before its imports.

From here on Ctrl-C is quiet, no signal ends a process that answers it later, and no fault of the
three standard streams ends one unexpectedly: a stream may be closed, its reader gone, its disk
full, its encoding too small for what is printed.
"""

import fcntl
import gc
import io
import os
import sys
from contextlib import suppress

from ..early_signals import is_long_lived, note_requests

#: What shells make of a SIGINT: 128 and its number.
INTERRUPTED = 130

#: Whoever prints a list makes hardly any garbage, and to look for it at each import would take a
#: tenth of the time. What lives long would keep 4 MB of it.
COLLECT_EVERY = 1_000_000


def main() -> None:
    lives_long = is_long_lived(sys.argv[1:])
    try:
        if lives_long:
            note_requests()
        else:
            gc.set_threshold(COLLECT_EVERY)
        _prepare()
        try:
            from .command_tree import run  # noqa: PLC0415 - imports are most of a short command's time

            status = run()
        finally:
            _release()
    except KeyboardInterrupt:
        status = INTERRUPTED
    finally:
        if not lives_long:
            gc.freeze()  # or the interpreter looks through all of it at its end, which takes long
    sys.exit(status)


class OutputLost(Exception):
    """Output could not be written. No OSError: libraries catch those of a broken pipe."""

    def __init__(self, cause: OSError) -> None:
        self.cause = cause
        super().__init__(f"standard output: {cause.strerror or cause}")


class _StandardOutput(io.FileIO):
    """Standard output that raises `OutputLost`."""

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            raise OutputLost(error) from error


def _prepare() -> None:
    """Replace the standard streams, before anything is printed or opened."""
    # `open` gives the lowest free number: in this order each stream gets its own. Writing to a
    # closed standard output then fails too, and reaches no file that was opened meanwhile.
    for number, how in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        if not _is_open(number):
            os.open(os.devnull, how)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout = _text(_StandardOutput(1, "w", closefd=False), encoding)
    if sys.stderr is None:
        sys.stderr = _text(io.FileIO(2, "w", closefd=False), "utf-8")


def _release() -> None:
    """Flush the streams, or discard what they hold: the interpreter's own flush must not fail."""
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
