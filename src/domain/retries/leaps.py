"""Clocks that leapt ahead and were set right: what was noted meanwhile is of a time to come."""

from datetime import datetime, timedelta
from typing import Final

#: What the nodes' ideas of the ledger's time may differ by (ADR 15).
CLOCKS_DIFFER: Final = timedelta(seconds=5)


def was_ahead(noted_at: datetime, now: datetime) -> bool:
    """Tell whether something was noted by a clock that has been set back since."""
    return noted_at - now > CLOCKS_DIFFER
