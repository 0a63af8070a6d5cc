"""How edits of schedules are found by their times (ADR 8)."""

from datetime import timedelta
from typing import Final

#: A row may commit a while after the time in its updated_at: look back so far.
LATE_COMMITS: Final = timedelta(seconds=60)

#: Every row is compared this often, as the search by time may have missed an edit.
FULL_COMPARISON: Final = timedelta(minutes=10)
