"""The queues that were tried in vain a moment ago, and are not tried again meanwhile."""

from typing import Final

import attrs

from cronhare.domain.retries.backoff import exponential

#: Seconds that a queue is left out, and that a message rests, for the first time.
FIRST_PAUSE: Final = 1.0


@attrs.define
class _Pause:
    until: float
    timed_out: int  # so often in a row


class QueueBackoff:
    """Knows queues that took nothing: missing or full ones, and those that do not answer.

    To ask the former costs little. Each question to the latter holds up what is beside it, so they
    are asked ever more rarely.
    """

    def __init__(self, *, most: int, longest: float, remembered_for: float) -> None:
        """Of no more than *most* it knows at a time, and leaves none out for more than *longest*.

        For *remembered_for* after that, all in seconds, it is known to have been tried in vain.
        """
        self._most = most
        self._longest = longest
        self._known_for = remembered_for
        self._left = dict[str, _Pause]()

    def record_failure(self, queue: str, now: float, *, timed_out: bool) -> None:
        """Leave a queue out from *now*; of those who asked at the same time the first counts."""
        if self.is_paused(queue, now):
            return
        before = self._left.get(queue)
        if before is None and len(self._left) >= self._most:
            self._forget(now)
            if len(self._left) >= self._most:
                return
        times = before.timed_out if before is not None and timed_out else 0
        until = now + exponential(FIRST_PAUSE, times, self._longest)
        self._left[queue] = _Pause(until, times + 1 if timed_out else 0)

    def is_paused(self, queue: str, now: float) -> bool:
        """Tell whether not to try it."""
        left = self._left.get(queue)
        return left is not None and now < left.until

    def failed_recently(self, queue: str, now: float) -> bool:
        """Tell whether it is left out, or was a moment ago."""
        left = self._left.get(queue)
        return left is not None and now < left.until + self._known_for

    def reset(self, queue: str) -> None:
        """It took something."""
        self._left.pop(queue, None)

    def _forget(self, now: float) -> None:
        self._left = {
            queue: left for queue, left in self._left.items() if self.failed_recently(queue, now)
        }
