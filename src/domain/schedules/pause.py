"""A pause: a stretch of time in which a schedule's due instants do not run.

It is no edit: the plan goes on, and each instant that does not run is recorded with who paused it
since when, and why. Its end comes by itself, or by a resume; what was due before it stays skipped.
"""

from datetime import datetime
from typing import Final

import msgspec

from ..texts.moments import say_moment

#: The most characters of a reason, and of an author.
LONGEST_REASON: Final = 1_000
LONGEST_AUTHOR: Final = 255


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """From *since*, inclusive, to *until*, exclusive; without *until* it lasts until a resume.

    A pause that is over stays known, until the next one replaces it: what was due in it, and has
    not been looked at yet, did not run because of it.
    """

    since: datetime
    until: datetime | None = None
    by: str | None = None
    reason: str | None = None

    def is_on(self, now: datetime) -> bool:
        """Whether nothing is to be claimed at *now*."""
        return self.since <= now and (self.until is None or now < self.until)

    def covers(self, instant: datetime, *, now: datetime) -> bool:
        """Whether an instant that is looked at *now* does not run because of it.

        While it lasts that is each instant, those as well that were due before it and that nobody
        had claimed: who pauses a schedule expects that nothing of it begins.
        """
        if self.until is not None and instant >= self.until:
            return False
        return instant >= self.since or self.is_on(now)

    def __str__(self) -> str:
        by = f" by {self.by}" if self.by else ""
        until = f" until {say_moment(self.until)}" if self.until else ""
        why = f": {self.reason}" if self.reason else ""
        return f"paused{by} since {say_moment(self.since)}{until}{why}"


def paused_anew(pause: Pause, before: Pause | None, *, now: datetime) -> Pause:
    """Give the pause that is kept when a schedule is paused; one that is on goes on since then."""
    if before is not None and before.is_on(now):
        return msgspec.structs.replace(pause, since=before.since)
    return pause


def resumed(pause: Pause, *, now: datetime) -> Pause:
    """End a pause at *now*, if it is still to end."""
    return msgspec.structs.replace(pause, until=now) if pause.is_on(now) else pause
