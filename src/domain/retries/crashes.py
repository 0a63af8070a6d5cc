"""Crashes, and how many of them make a poison pill (S2.8, C19, C36 in docs/compatibility.md)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Self

import attrs
import msgspec

from .leaps import was_ahead
from .outcome import CRASHES, Ending

#: So many crashes within the window before now make a poison pill, unless a policy says otherwise.
CRASH_LIMIT: Final = 3
CRASH_WINDOW: Final = timedelta(seconds=300)

#: So long a task that is stopped has to end by itself.
TERM_TO_KILL: Final = timedelta(seconds=5)

#: What may be asked for. An older crash than a day says nothing of now.
CRASH_LIMITS: Final = range(1, 100 + 1)
CRASH_WINDOWS_MS: Final = range(1_000, 86_400_000 + 1)

#: The ends of which a policy may count some as crashes.
MAY_COUNT: Final = CRASHES | {Ending.TIMED_OUT}


class Crash(msgspec.Struct, frozen=True):
    """An attempt that *node* ran, and that ended at *at* as nobody chose."""

    at: datetime
    ending: Ending
    node: str = ""


@attrs.frozen
class PoisonPill:
    """The crashes for which a run is quarantined: how many within the window, and from when on."""

    crash_count: int
    first_crash_at: datetime
    last_crash_at: datetime

    @classmethod
    def of(cls, crashes: Sequence[Crash]) -> Self | None:
        """Sum crashes up; None if there are none."""
        return cls(len(crashes), crashes[0].at, crashes[-1].at) if crashes else None


@attrs.frozen(kw_only=True)
class CrashPolicy:
    """An execution that crashes *limit* times within *window* is a poison pill.

    An endless loop ends at its timeout: that is a crash, too, if *timeouts* says so.
    """

    limit: int = CRASH_LIMIT
    window: timedelta = CRASH_WINDOW
    timeouts: bool = True

    def is_crash(self, ending: Ending) -> bool:
        """Tell whether an end counts."""
        return ending in CRASHES or (self.timeouts and ending is Ending.TIMED_OUT)

    def recent(self, crashes: Sequence[Crash], *, now: datetime) -> tuple[Crash, ...]:
        """Pick those that count: they lie within the window before *now*.

        One that a clock ahead of its time noted is of unknown age, and does not count.
        """
        return tuple(
            crash
            for crash in crashes
            if self.is_crash(crash.ending)
            and now - crash.at < self.window
            and not was_ahead(crash.at, now)
        )

    def restarts(
        self, interruptions: Sequence[tuple[Crash, timedelta]], *, grace: timedelta, now: datetime
    ) -> tuple[Crash, ...]:
        """Pick the shutdowns that a task may have asked for itself: they began soon after it did.

        Each of *interruptions* comes with how long its task had run.

        A shutdown begins *grace*, and what a process has from TERM to KILL, before it interrupts.
        Within the same time after the task's start is soon. More than *limit* of them are too many;
        the window has room for so many, however long the grace is.
        """
        soon = 2 * grace + TERM_TO_KILL
        window = max(self.window, (self.limit + 1) * soon)
        return tuple(
            crash
            for crash, ran in interruptions
            if ran < soon and now - crash.at < window and not was_ahead(crash.at, now)
        )
