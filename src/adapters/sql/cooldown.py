"""Rows that were refused or locked a moment ago rest: they are not asked for again for a while."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Final

from sqlalchemy import ColumnElement, Select

from cronhare.domain.retries.backoff import REST

#: The most rows to remember. A statement names them all, and SQLite takes 32,766.
MOST: Final = 10_000


class Cooldown:
    """Ids of rows of one table, each with a reason, in this process. For any thread."""

    def __init__(self, rest: timedelta = REST) -> None:
        self._rest = rest
        self._lock = Lock()
        self._reasons: dict[int, tuple[datetime, str]] = {}

    def note(self, id_: int, now: datetime, reason: str = "") -> None:
        """Take note of a row; without room the oldest is dropped."""
        with self._lock:
            self._reasons.pop(id_, None)
            if len(self._reasons) >= MOST:
                del self._reasons[next(iter(self._reasons))]
            self._reasons[id_] = (now + self._rest, reason)

    def forget(self, id_: int) -> None:
        """Let a row be tried again, as it was edited."""
        with self._lock:
            self._reasons.pop(id_, None)

    def at(self, now: datetime) -> Mapping[int, str]:
        """Give the ids and reasons that count at *now*; nearly always there are none."""
        if not self._reasons:
            return {}
        with self._lock:
            self._reasons = {
                id_: (until, reason)
                for id_, (until, reason) in self._reasons.items()
                if timedelta(0) < until - now <= self._rest  # a clock may be set back
            }
            return {id_: reason for id_, (_, reason) in self._reasons.items()}


def excluding(
    statement: Select[Any], id_: ColumnElement[int], passed_over: Collection[int]
) -> Select[Any]:
    """Let a SELECT leave out what is passed over; nearly always it stays as it is."""
    return statement.where(id_.not_in(sorted(passed_over))) if passed_over else statement
