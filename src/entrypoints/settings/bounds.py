"""What settings and options have in common: a page of help reads none of the settings."""

from typing import Final

#: The most tasks that run at a time in a worker.
MOST_AT_A_TIME: Final = 1_000

#: How many run at a time, where nothing is set.
IN_UP: Final = 8
IN_A_WORKER: Final = 1
