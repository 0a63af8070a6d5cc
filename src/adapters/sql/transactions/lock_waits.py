"""How long a transaction waits for locks of others, where its caller can go on without them.

A gap between rows cannot be skipped as a row can: an INSERT into it waits. So a batch is written
again in smaller parts, which wait for as short as the server can.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import attrs

from ..dialect import Locked

#: MySQL makes 1 second of it.
NOT_AT_ALL: Final = 0

#: So many seconds the single locked items of a batch may take: on MySQL each takes one.
LOCKED_BUDGET: Final = 5.0

#: For so many seconds after a lock was met none is waited for: it may be held still.
NO_WAIT_FOR: Final = 60.0


class LockWaitBudget:
    """Whether to wait for locks: not for a while after one was waited for in vain."""

    def __init__(self) -> None:
        """Wait for the first lock."""
        self._until = float("-inf")

    @contextmanager
    def limited_wait(self) -> Iterator[None]:
        """Do as `limit_lock_wait`, as long as the budget allows."""
        try:
            with limit_lock_wait(NOT_AT_ALL if time.monotonic() < self._until else None):
                yield
        except Locked:
            self._until = time.monotonic() + NO_WAIT_FOR
            raise


@attrs.frozen
class LockWait:
    """*seconds* is None for the session's own."""

    seconds: int | None


_asked: ContextVar[LockWait | None] = ContextVar("cronhare_lock_wait", default=None)


@contextmanager
def limit_lock_wait(seconds: int | None = None) -> Iterator[None]:
    """Let this thread's transactions wait for locks so long, and not be repeated after that.

    Raises:
        Locked: they have waited in vain.
    """
    before = _asked.set(LockWait(seconds))
    try:
        yield
    finally:
        _asked.reset(before)


def lock_wait() -> LockWait | None:
    """Give the limit of this thread; None if there is none."""
    return _asked.get()


def waits_for_no_lock() -> bool:
    """Tell whether this thread's limit is `NOT_AT_ALL`."""
    asked = lock_wait()
    return asked is not None and asked.seconds == NOT_AT_ALL
