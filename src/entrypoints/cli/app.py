"""Where the command line begins: with nothing imported yet, so that Ctrl-C is quiet from here."""

import sys

#: What shells make of a SIGINT: 128 and its number.
INTERRUPTED = 130


def main() -> None:
    """Run a command and leave with its exit status."""
    try:
        from . import streams  # noqa: PLC0415 - as below

        streams.settle()
        try:
            from .commands import run  # noqa: PLC0415 - imports are most of a short command's time

            status = run()
        finally:
            streams.let_go()
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)
