"""How much of what an attempt writes may go to the log. No clock here: time is an argument."""

#: Bytes of log that an attempt may write at once, and in each second after that.
BURST, PER_SECOND = 128 * 1024, 16 * 1024
#: What a line costs beside its text: what stands before it, in either form of the log.
LINE = 256


class LogRateLimit:
    """A bucket of bytes. Once it is empty it stays closed until a second's worth is in it again.

    So a task that writes without end costs the log one burst, and then a second's worth at a time,
    with one word between on what was left out.

    >>> budget = LogBudget()
    >>> budget.is_open(0.0), budget.take(BURST, now=0.0), budget.take(1, now=0.0)
    (True, True, False)
    >>> budget.is_open(0.5), budget.is_open(1.2)
    (False, True)
    """

    def __init__(self) -> None:
        self._left = float(BURST)
        self._at = 0.0
        self._closed = False

    def is_open(self, now: float) -> bool:
        """Whether a line may be tried at *now*, a monotonic time in seconds."""
        self._fill(now)
        if self._closed and self._left >= PER_SECOND:
            self._closed = False
        return not self._closed

    def take(self, size: int, *, now: float) -> bool:
        """Pay for a line of *size* bytes; False if it may not be written."""
        if not self.is_open(now):
            return False
        self._closed = self._left < size
        if not self._closed:
            self._left -= size
        return not self._closed

    def _fill(self, now: float) -> None:
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND)
        self._at = now
