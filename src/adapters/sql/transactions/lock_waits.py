"""How long a transaction waits for what others hold, where its caller makes the best of a refusal.

A gap between rows cannot be passed over as a row can: who wants to insert into it waits. So what
is written together is written again in smaller parts, which wait for as short as the server can.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import attrs

#: MySQL makes 1 second of it.
NOT_AT_ALL: Final = 0

#: So many seconds those of one batch may take that are locked alone: on MySQL each takes one.
LOCKED_BUDGET: Final = 5.0

#: So long after something was locked nobody waits: whoever locked it may hold it still.
NO_WAIT_FOR: Final = 60.0


class LockWaitBudget:
    """Whether to wait for what others keep locked: not while somebody did so lately."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """*monotonic* counts seconds."""
        self._monotonic = monotonic
        self._until = float("-inf")

    def note(self) -> None:
        """Take note that something was locked."""
        self._until = self._monotonic() + NO_WAIT_FOR

    @property
    def seconds(self) -> int | None:
        """How long to wait: see `limit_lock_wait`."""
        return NOT_AT_ALL if self._monotonic() < self._until else None


@attrs.frozen
class LockWait:
    """*seconds* is None for the session's own."""

    seconds: int | None


_asked: ContextVar[LockWait | None] = ContextVar("cronhare_lock_wait", default=None)


@contextmanager
def limit_lock_wait(seconds: int | None = None) -> Iterator[None]:
    """Have this thread's transactions wait for so long, and tell at once what is locked then.

    Raises:
        Locked: they have waited in vain.
    """
    before = _asked.set(LockWait(seconds))
    try:
        yield
    finally:
        _asked.reset(before)


def lock_wait() -> LockWait | None:
    """Give what was asked for; None if nobody did."""
    return _asked.get()


def waits_for_no_lock() -> bool:
    """Tell whether nothing is waited for."""
    asked = lock_wait()
    return asked is not None and asked.seconds == NOT_AT_ALL
