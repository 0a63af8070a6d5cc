"""What a person at a terminal sees: steps, the commands that are typed, and what they print."""

import fcntl
import os
import re
import shutil
import struct
import subprocess
import sys
import termios
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from .interrupts import Interrupts

#: A window in which nothing looks lost; a wider one is not used up, so that lines stay readable.
NARROWEST, WIDEST = 60, 100
LINES = 40

_COLOURS = {"bold": "1", "green": "32", "red": "31", "dim": "90"}
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """Prints to standard output, in colours if that is a terminal."""

    def __init__(self) -> None:
        self.is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self.width = max(NARROWEST, min(WIDEST, shutil.get_terminal_size((80, LINES)).columns))

    def step(self, number: int, text: str) -> None:
        """Say what is about to happen."""
        print()
        self._paragraph(f"{number}. ", text, "bold")

    def came_of_it(self, text: str) -> None:
        """Say what was verified."""
        self._paragraph("=> ", text, "green")

    def fault(self, text: str) -> None:
        """Say what did not happen."""
        self._paragraph("!! ", text, "red")

    def note(self, text: str) -> None:
        """Say something beside it."""
        self._paragraph("", text, "dim")

    def typed(self, command: str) -> None:
        """Show what is typed."""
        print(self._painted(f"$ {command}", "bold"), flush=True)

    def _paragraph(self, begin: str, text: str, colour: str) -> None:
        indent = " " * len(begin)
        wrapped = textwrap.wrap(
            text,
            self.width,
            initial_indent=begin,
            subsequent_indent=indent,
            break_on_hyphens=False,
            break_long_words=False,
        )
        for line in wrapped:
            print(self._painted(line, colour), flush=True)

    def _painted(self, text: str, colour: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.is_coloured else text


def run_on_terminal(
    screen: Screen,
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    interrupts: Interrupts,
) -> tuple[int, str]:
    """Run a command on a terminal of the screen's width, and show what it prints.

    Gives its exit status, and what it printed without the colours.
    """
    ours, its = os.openpty()
    process: subprocess.Popen[bytes] | None = None
    try:
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, screen.width, 0, 0))
        with interrupts.held():
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**environment, **({} if screen.is_coloured else {"TERM": "dumb"})},
                stdin=subprocess.DEVNULL,
                stdout=its,
                stderr=its,
            )
            os.close(its)
        printed = _read(ours)
        return process.wait(), _ESCAPES.sub("", printed)
    finally:
        with interrupts.held():
            os.close(ours)
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait()


def _read(ours: int) -> str:
    """Give what comes, and show it."""
    pieces = bytearray()
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # on Linux: nobody has the other side open any more
            break
        if not piece:
            break
        pieces += piece
        sys.stdout.write(piece.decode(errors="replace").replace("\r\n", "\n"))
        sys.stdout.flush()
    return pieces.decode(errors="replace").replace("\r\n", "\n")
