"""Where the command line begins: with next to nothing imported yet.

From here on Ctrl-C is quiet, and no signal ends a process that is to answer it later.
"""

import sys

from ..signals.pending import hear, lives_long

#: What shells make of a SIGINT: 128 and its number.
INTERRUPTED = 130


def main() -> None:
    """Run a command and leave with its exit status."""
    try:
        if lives_long(sys.argv[1:]):
            hear()
        from . import streams  # noqa: PLC0415 - as below

        streams.settle()
        try:
            from .command_tree import run  # noqa: PLC0415 - imports are most of a short command's time

            status = run()
        finally:
            streams.let_go()
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)
