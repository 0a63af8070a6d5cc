"""Backoff of queues: one that was published to in vain is not tried again for a while."""

from typing import Final

import attrs

from cronhare.domain.retries.backoff import exponential

#: Seconds that a queue is paused, and that a message rests, for the first time.
FIRST_PAUSE: Final = 1.0


@attrs.define
class _Pause:
    until: float
    timeouts: int  # in a row


class QueueBackoff:
    """Pauses queues that took nothing.

    A missing or full one is paused for `FIRST_PAUSE` each time, as to try it costs little. A try
    that times out holds up what is beside it, so that pause grows.
    """

    def __init__(self, *, most: int, longest: float, remembered_for: float) -> None:
        """*most* bounds the queues that are known at a time, *longest* a pause.

        For *remembered_for* after its pause a queue counts as failed recently. All in seconds.
        """
        self._most = most
        self._longest = longest
        self._remembered_for = remembered_for
        self._paused = dict[str, _Pause]()

    def record_failure(self, queue: str, now: float, *, timed_out: bool) -> None:
        """Pause a queue from *now*; of tries at the same time only the first counts."""
        if self.is_paused(queue, now):
            return
        before = self._paused.get(queue)
        if before is None and len(self._paused) >= self._most:
            self._forget(now)
            if len(self._paused) >= self._most:
                return
        times = before.timeouts if before is not None and timed_out else 0
        until = now + exponential(FIRST_PAUSE, times, self._longest)
        self._paused[queue] = _Pause(until, times + 1 if timed_out else 0)

    def is_paused(self, queue: str, now: float) -> bool:
        """Tell whether it is not to be tried."""
        pause = self._paused.get(queue)
        return pause is not None and now < pause.until

    def failed_recently(self, queue: str, now: float) -> bool:
        """Tell whether it is paused, or was a moment ago."""
        pause = self._paused.get(queue)
        return pause is not None and now < pause.until + self._remembered_for

    def reset(self, queue: str) -> None:
        """Forget a queue, as it took something."""
        self._paused.pop(queue, None)

    def _forget(self, now: float) -> None:
        recent = [queue for queue in self._paused if self.failed_recently(queue, now)]
        self._paused = {queue: self._paused[queue] for queue in recent}
