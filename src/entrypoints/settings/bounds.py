"""Bounds of settings that options have as well: a page of help reads none of the settings."""

from typing import Final

#: The most tasks that run at a time in a worker.
MOST_AT_A_TIME: Final = 1_000
