"""The kinds of reasons for which due instants are skipped: few, so that they can be counted.

The ledger keeps the whole sentence, and `cronhare explain` shows it.
"""

import enum
from typing import Final


class SkipKind(enum.StrEnum):
    """Why an instant did not run, in one word."""

    BLACKOUT = "blackout"
    CALENDAR = "calendar"
    EDITED = "edited"
    EXPIRED = "expired"
    IDLE = "idle"
    MAX_RUNS = "max_runs"
    MISSED = "missed"
    OVERLAP = "overlap"
    PAUSED = "paused"
    OTHER = "other"


_BEGINNINGS: Final = {
    "blackout": SkipKind.BLACKOUT,
    "calendar": SkipKind.CALENDAR,
    "in no window of calendar": SkipKind.CALENDAR,
    "the schedule was edited": SkipKind.EDITED,
    "expired": SkipKind.EXPIRED,
    "disabled": SkipKind.IDLE,
    "ended": SkipKind.IDLE,
    "broken": SkipKind.IDLE,
    "max_runs": SkipKind.MAX_RUNS,
    "missed": SkipKind.MISSED,
    "overlap": SkipKind.OVERLAP,
    "paused": SkipKind.PAUSED,
}


def skip_kind(reason: str) -> SkipKind:
    """Tell the kind of a reason.

    >>> skip_kind("overlap: execution 7 has not ended (overlap policy skip)")
    <SkipKind.OVERLAP: 'overlap'>
    """
    for beginning, kind in _BEGINNINGS.items():
        if reason.startswith(beginning):
            return kind
    return SkipKind.OTHER
