"""What was refused, or others kept locked, a moment ago: for a while it is not asked for again."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Final

from sqlalchemy import ColumnElement, Select

#: So long it is remembered. What refused a row may be mended, and to ask costs few transactions.
FOR: Final = timedelta(minutes=1)

#: So many are remembered at the most. A statement names them all, and SQLite takes 32,766.
MOST: Final = 10_000


class Cooldown:
    """Rows of one table by their ids, each with a reason, in this process. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._reasons: dict[int, tuple[datetime, str]] = {}

    def note(self, id_: int, now: datetime, reason: str = "") -> None:
        """Take note of a row; where there is no room, the one goes that came first."""
        with self._lock:
            self._reasons.pop(id_, None)
            if len(self._reasons) >= MOST:
                del self._reasons[next(iter(self._reasons))]
            self._reasons[id_] = (now + FOR, reason)

    def forget(self, id_: int) -> None:
        """Let a row be tried again: somebody has edited it."""
        with self._lock:
            self._reasons.pop(id_, None)

    def at(self, now: datetime) -> Mapping[int, str]:
        """Give the ids and reasons that still count at *now*; nearly always there are none."""
        if not self._reasons:
            return {}
        with self._lock:
            self._reasons = {
                id_: (until, reason)
                for id_, (until, reason) in self._reasons.items()
                if timedelta(0) < until - now <= FOR  # a clock may be set back
            }
            return {id_: reason for id_, (_, reason) in self._reasons.items()}


def excluding(
    statement: Select[Any], id_: ColumnElement[int], passed_over: Collection[int]
) -> Select[Any]:
    """Have a SELECT leave out what is passed over; nearly always it stays as it is."""
    return statement.where(id_.not_in(sorted(passed_over))) if passed_over else statement
