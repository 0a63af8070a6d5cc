"""What settings and options have in common: a page of help reads none of the settings."""

from typing import Final

#: The most tasks that run at a time in a worker; and how many do where nothing is set.
MOST_AT_A_TIME: Final = 1_000
IN_UP: Final = 8
IN_A_WORKER: Final = 1
