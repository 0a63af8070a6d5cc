"""Logging a trouble that lasts: at once, then ever more rarely, and its end."""

import logging
import re
import time
from collections.abc import Callable
from typing import Final

import attrs

from cronhare.domain.execution import LONGEST_WAIT, wait_after

from .logs import say

#: Seconds after which the same error is logged again while it lasts.
REMIND_EVERY: Final = 60.0

#: So many different errors of one outage are logged at once; all others count as one.
KINDS: Final = 8

#: Numbers, such as a port or a tag of the broker, do not make an error a different one.
_DIGITS: Final = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")


@attrs.define(eq=False)
class Outage:
    """The outages of one server, as one of its users sees them.

    A server is asked again every few seconds. So each error is logged when it is new, and then
    once a minute; the end is logged as well, by *restored* and the action *back*, so that an alarm
    can end. Threads may share this: at worst a line is logged twice.
    """

    _log: logging.Logger
    _restored: str
    _back: str = attrs.field(kw_only=True, default="server.back")
    _monotonic: Callable[[], float] = attrs.field(kw_only=True, default=time.monotonic)
    _began: float | None = attrs.field(init=False, default=None)
    _logged: dict[str, float] = attrs.field(init=False, factory=dict[str, float])

    def lasts(self, level: int, action: str, text: str, error: object) -> None:
        """Log *text* and *error*, unless that error was logged within the last minute."""
        now, kind = self._monotonic(), _DIGITS.sub("0", str(error))
        self._began = now if self._began is None else self._began
        if kind not in self._logged and len(self._logged) >= KINDS:
            kind = ""
        last = self._logged.get(kind)
        if last is not None and now - last < REMIND_EVERY:
            return
        self._logged[kind] = now
        since = "" if now == self._began else f" (for {now - self._began:.0f} s now)"
        say(self._log, level, action, f"{text}: {error}{since}")

    def is_over(self, level: int = logging.INFO) -> None:
        began, self._began = self._began, None
        if began is None:
            return
        self._logged = {}
        text = f"{self._restored}, after {self._monotonic() - began:.0f} s"
        say(self._log, level, self._back, text)


#: So many queues are remembered as logged, for so many seconds at least; all others count as one.
MOST_LOGGED: Final = 1_000
_REMEMBERED: Final = 2 * LONGEST_WAIT.total_seconds()


class LogLimiter:
    """Says when the trouble of a queue is to be logged: as rarely as a message is sent again.

    Threads may share this: at worst a line is logged twice.
    """

    def __init__(self) -> None:
        self._logged: dict[str, tuple[float, int]] = {}  # when, and how often before

    def __bool__(self) -> bool:
        return bool(self._logged)

    def is_due(self, queue: str, now: float) -> bool:
        """Tell whether to log at *now*, in seconds of one clock; the caller then does so."""
        if queue not in self._logged and len(self._logged) >= MOST_LOGGED:  # strangers name some
            oldest = [*self._logged][0]  # noqa: RUF015 - another thread may log
            if 0.0 <= now - self._logged[oldest][0] < _REMEMBERED:
                queue = ""
            else:
                self.reset(oldest)
        at, times = self._logged.get(queue, (now, -1))
        if times >= 0 and 0.0 <= now - at < wait_after(times).total_seconds():
            return False
        self.reset(queue)  # so that the one that was logged longest ago comes first
        self._logged[queue] = now, times + 1
        return True

    def reset(self, queue: str) -> None:
        self._logged.pop(queue, None)
