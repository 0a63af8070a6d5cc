"""What is told at once, and then ever more rarely while it lasts."""

import attrs

from cronhare.domain.lifecycle.redelivery import wait_after


@attrs.define
class _Alarm:
    said_at: float
    times: int = 1

    def is_due_again(self, now: float) -> bool:
        """Tell whether to say it anew; the waits are those of a message that is sent again."""
        return not 0.0 <= now - self.said_at < self._wait

    def has_passed(self, now: float) -> bool:
        """Tell whether nothing was wrong when it was due again, nor for as long after that."""
        return not 0.0 <= now - self.said_at < 2 * self._wait

    @property
    def _wait(self) -> float:
        return wait_after(self.times - 1).total_seconds()


class LogLimiter:
    """Says of each queue when its trouble is to be told.

    Threads may share this: a line too many is the worst of it.
    """

    def __init__(self, *, most: int | None = None) -> None:
        """Of no more than *most* queues it is told at a time."""
        self._most = most
        self._alarms: dict[str, _Alarm] = {}

    def __bool__(self) -> bool:
        """Whether any trouble lasts."""
        return bool(self._alarms)

    def is_due(self, queue: str, now: float) -> bool:
        """Tell whether to say so at *now*, in seconds of one clock; then it is taken as said."""
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
        """Begin anew with the next trouble of a queue."""
        self._alarms.pop(queue, None)

    def _forget(self, now: float) -> None:
        """Let go of what lasts no more, though nobody has said that it is over."""
        lasting = [
            (queue, each) for queue, each in self._alarms.items() if not each.has_passed(now)
        ]
        self._alarms = dict(lasting)
