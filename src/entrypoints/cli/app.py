"""The command line's beginning, before its imports.

From here on Ctrl-C is quiet, and no signal ends a process that answers it later.
"""

import gc
import sys

from ..early_signals import is_long_lived, note_requests

#: What shells make of a SIGINT: 128 and its number.
INTERRUPTED = 130

#: Whoever prints a list makes hardly any garbage, and to look for it at each import would take a
#: tenth of the time. What lives long would keep 4 MB of it.
COLLECT_EVERY = 1_000_000


def main() -> None:
    """Run a command and leave with its exit status."""
    lives_long = is_long_lived(sys.argv[1:])
    try:
        if lives_long:
            note_requests()
        else:
            gc.set_threshold(COLLECT_EVERY)
        from . import streams  # noqa: PLC0415 - as below

        streams.prepare()
        try:
            from .command_tree import run  # noqa: PLC0415 - imports are most of a short command's time

            status = run()
        finally:
            streams.release()
    except KeyboardInterrupt:
        status = INTERRUPTED
    finally:
        if not lives_long:
            gc.freeze()  # or the interpreter looks through all of it at its end, which takes long
    sys.exit(status)
