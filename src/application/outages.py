"""What is said of a server that is away: its first silence, a reminder now and then, its return."""

import logging
import re
import time
from collections.abc import Callable
from typing import Final

from .logs import say

#: Seconds after which the same trouble is told again while it lasts.
REMIND_EVERY: Final = 60.0

#: So many different troubles of one outage are told at once; each further one waits its minute.
SORTS: Final = 8


#: What differs from one time to the next, a port or a tag of a broker's, makes no other trouble.
_DIGITS: Final = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")


class Outage:
    """The outages of one server, as one of those who need it sees them.

    Whoever asks again every few seconds would fill a log with one sentence. So each trouble is told
    when it is new, and once a minute; what follows is told of as well, for the alarm to end.
    Safe to share between threads: a line too many is the worst of it.
    """

    def __init__(
        self,
        log: logging.Logger,
        restored: str,
        *,
        back: str = "server.back",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """*restored* is what is said once it is over, with the action *back*."""
        self._log = log
        self._restored = restored
        self._back = back
        self._monotonic = monotonic
        self._began: float | None = None
        self._told: dict[str, float] = {}

    def lasts(self, level: int, action: str, text: str, error: object) -> None:
        """Say *text* and *error*, unless that error was told within the last minute."""
        now, sort = self._monotonic(), _DIGITS.sub("0", str(error))
        self._began = now if self._began is None else self._began
        if sort not in self._told and len(self._told) >= SORTS:
            sort = ""
        last = self._told.get(sort)
        if last is not None and now - last < REMIND_EVERY:
            return
        self._told[sort] = now
        since = "" if now == self._began else f" (for {now - self._began:.0f} s now)"
        say(self._log, level, action, f"{text}: {error}{since}")

    def is_over(self, level: int = logging.INFO) -> None:
        """Say that the server answers again, if it did not."""
        began, self._began = self._began, None
        if began is None:
            return
        self._told = {}
        text = f"{self._restored}, after {self._monotonic() - began:.0f} s"
        say(self._log, level, self._back, text)
