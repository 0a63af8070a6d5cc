"""How much of an attempt's output may go to the log. No clock here: time is an argument."""

#: Bytes of log that an attempt may write at once, and in each second after that.
BURST, PER_SECOND = 128 * 1024, 16 * 1024
#: Bytes that a line costs beside its text, for its prefix in either form of the log.
LINE = 256


class LogRateLimit:
    """A token bucket of bytes. Once empty, it stays closed until it holds a second's worth.

    So endless output costs the log one burst, then a second's worth at a time, with one line
    between that counts what was omitted.

    >>> rate = LogRateLimit()
    >>> rate.is_open(0.0), rate.take(BURST, now=0.0), rate.take(1, now=0.0)
    (True, True, False)
    >>> rate.is_open(0.5), rate.is_open(1.2)
    (False, True)
    """

    def __init__(self) -> None:
        self._left = float(BURST)
        self._at = 0.0
        self._closed = False

    def is_open(self, now: float) -> bool:
        """Whether a line may be tried at *now*, a monotonic time in seconds."""
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        if self._closed and self._left >= PER_SECOND:
            self._closed = False
        return not self._closed

    def take(self, size: int, *, now: float) -> bool:
        """Take *size* bytes for a line; False if it may not be written."""
        if not self.is_open(now):
            return False
        self._closed = self._left < size
        if not self._closed:
            self._left -= size
        return not self._closed
