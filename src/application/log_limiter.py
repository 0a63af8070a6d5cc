"""Rate-limited logging: a trouble is logged at once, and then ever more rarely while it lasts."""

import attrs

from cronhare.domain.lifecycle.redelivery import wait_after


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
