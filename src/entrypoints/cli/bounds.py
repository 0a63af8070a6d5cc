"""Bounds of options: a list of commands has some, and imports nothing else."""

from typing import Final

#: The most rows or instants that can be asked for at once.
MOST_LINES: Final = 10_000
