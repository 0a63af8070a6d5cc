"""Ctrl-C, a TERM and a hangup, which wait while something must not be left half done."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """Somebody wants it to end. *number* is that of the signal."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


class Interrupts:
    """Turns the first signal into an `Interrupted`; the others come when all is ending already."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._depth = 0
        for number in _SIGNALS:
            signal.signal(number, self._note)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let a signal wait for the end of the block."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if self._first is not None and not self._depth:
            number, self._first = self._first, 0
            if number:
                raise Interrupted(number)

    def _note(self, number: int, _frame: object) -> None:
        if self._first is not None:
            return
        self._first = number
        if not self._depth:
            self._first = 0
            raise Interrupted(number)
