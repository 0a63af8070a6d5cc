"""Logging a trouble that lasts: at once, then ever more rarely, and its end."""

import logging
import re
import time
from collections.abc import Callable
from typing import Final

import attrs

from cronhare.domain.lifecycle.redelivery import wait_after

from .logs import say

#: Seconds after which the same error is logged again while it lasts.
REMIND_EVERY: Final = 60.0

#: So many different errors of one outage are logged at once; all others count as one.
KINDS: Final = 8

#: Numbers, such as a port or a tag of the broker, do not make an error a different one.
_DIGITS: Final = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")


class Outage:
    """The outages of one server, as one of its users sees them.

    A server is asked again every few seconds. So each error is logged when it is new, and then
    once a minute; the end is logged as well, so that an alarm can end. Threads may share this: at
    worst a line is logged twice.
    """

    def __init__(
        self,
        log: logging.Logger,
        restored: str,
        *,
        back: str = "server.back",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """*restored* is logged once an outage is over, with the action *back*."""
        self._log = log
        self._restored = restored
        self._back = back
        self._monotonic = monotonic
        self._began: float | None = None
        self._logged: dict[str, float] = {}

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
        """Log that the server answers again, if it did not."""
        began, self._began = self._began, None
        if began is None:
            return
        self._logged = {}
        text = f"{self._restored}, after {self._monotonic() - began:.0f} s"
        say(self._log, level, self._back, text)


@attrs.define
class _Alarm:
    logged_at: float
    times: int = 1

    def is_due_again(self, now: float) -> bool:
        """Tell whether to log it anew; the waits are those of a message that is sent again."""
        return not 0.0 <= now - self.logged_at < self._wait

    def has_passed(self, now: float) -> bool:
        """Tell whether it was not reported when it was due again, nor for as long after that."""
        return not 0.0 <= now - self.logged_at < 2 * self._wait

    @property
    def _wait(self) -> float:
        return wait_after(self.times - 1).total_seconds()


class LogLimiter:
    """Says when the trouble of a queue is to be logged.

    Threads may share this: at worst a line is logged twice.
    """

    def __init__(self, *, most: int | None = None) -> None:
        """*most* bounds the queues whose trouble is logged at a time."""
        self._most = most
        self._alarms: dict[str, _Alarm] = {}

    def __bool__(self) -> bool:
        """Whether any trouble lasts."""
        return bool(self._alarms)

    def is_due(self, queue: str, now: float) -> bool:
        """Tell whether to log at *now*, in seconds of one clock; the caller then does so."""
        alarm = self._alarms.get(queue)
        if alarm is None:
            if self._most is not None and len(self._alarms) >= self._most:
                self._forget(now)
                if len(self._alarms) >= self._most:
                    return False
            self._alarms[queue] = _Alarm(now)
            return True
        if not alarm.is_due_again(now):
            return False
        self._alarms[queue] = _Alarm(now, alarm.times + 1)
        return True

    def reset(self, queue: str) -> None:
        """Forget a queue's trouble, as it is over."""
        self._alarms.pop(queue, None)

    def _forget(self, now: float) -> None:
        """Forget troubles that are no longer reported, though they were not reset."""
        lasting = [
            (queue, each) for queue, each in self._alarms.items() if not each.has_passed(now)
        ]
        self._alarms = dict(lasting)
