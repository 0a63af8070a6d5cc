"""The command line's beginning, before its imports.

From here on Ctrl-C is quiet, and no signal ends a process that answers it later.
"""

import sys

from ..signals.pending import is_long_lived, note_requests

#: What shells make of a SIGINT: 128 and its number.
INTERRUPTED = 130


def main() -> None:
    """Run a command and leave with its exit status."""
    try:
        if is_long_lived(sys.argv[1:]):
            note_requests()
        from . import streams  # noqa: PLC0415 - as below

        streams.prepare()
        try:
            from .command_tree import run  # noqa: PLC0415 - imports are most of a short command's time

            status = run()
        finally:
            streams.release()
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)
