"""Backoff of locked schedules: while they stay locked they are asked for ever more rarely."""

import logging
from collections.abc import Collection
from datetime import datetime, timedelta
from itertools import islice
from threading import Lock
from typing import Final

from cronhare.application.logs import say

from ..cooldown import MOST
from ..dialect import Locked

log = logging.getLogger(__name__)

#: The first wait: some locks of our own last for milliseconds, and were not waited for.
FIRST: Final = timedelta(seconds=2)

#: The longest wait, unless very many are locked: then no fixed bound leaves time for their
#: neighbours without asking for them all the time. See `free`.
LONGEST: Final = timedelta(minutes=1)

#: Asking for all locked rows takes one part in so many of the time: the rest is their neighbours'.
PARTS: Final = 10


class LockBackoff:
    """When each locked row of one table, by its id, may be asked for again. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waits: dict[int, tuple[datetime, timedelta]] = {}
        self._forgot: datetime | None = None

    def note(self, id_: int, now: datetime, took: timedelta) -> timedelta:
        """Put off a row that was found locked, which *took* so long; answers the wait.

        Without room the oldest is dropped.
        """
        with self._lock:
            _, before = self._waits.pop(id_, (now, timedelta(0)))
            if len(self._waits) >= MOST:
                del self._waits[next(iter(self._waits))]
            ever_longer = min(max(2 * before, FIRST), LONGEST)
            wait = max(ever_longer, PARTS * took * (len(self._waits) + 1))
            self._waits[id_] = (now + wait, wait)
            return wait

    def free(self, ids: Collection[int], now: datetime) -> None:
        """Forget rows that could be taken, and let two others be asked for at once for each.

        One transaction may hold many: once it ends, a few looks ask for all of them, however long
        their waits. If the rest is locked by another, that costs two questions.
        """
        if not self._waits:
            return
        with self._lock:
            known = [id_ for id_ in ids if self._waits.pop(id_, None) is not None]
            resting = (id_ for id_, (until, _) in self._waits.items() if now < until)
            for id_ in list(islice(resting, 2 * len(known))):
                self._waits[id_] = (now, self._waits[id_][1])

    def at(self, now: datetime) -> Collection[int]:
        """Give the ids that are put off at *now*; nearly always there are none."""
        if not self._waits:
            return ()
        with self._lock:
            self._forget(now)
            return {id_ for id_, (until, _) in self._waits.items() if now < until}

    def is_any_known(self, now: datetime) -> bool:
        """Tell whether any row is put off, or was a moment ago: it may still be locked."""
        if not self._waits:
            return False
        with self._lock:
            self._forget(now)
            return bool(self._waits)

    def _forget(self, now: datetime) -> None:
        """Forget a row once its wait has passed twice; until then its next wait is longer."""
        if now == self._forgot:  # one look asks for each of its pages
            return
        self._forgot = now
        self._waits = {
            id_: (until, wait)
            for id_, (until, wait) in self._waits.items()
            if -wait < until - now <= wait  # a clock may be set back
        }


class LockedSchedulesLog:
    """Logs that schedules are put off, and when that is over."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def note(self, schedule_id: int, name: str, wait: timedelta, locked: Locked) -> None:
        """Log it at first, and then once a minute."""
        if FIRST < wait < LONGEST:
            return
        if len(self._names) < MOST:
            self._names[schedule_id] = name
        text = f"Schedule {name} is put off for {wait.total_seconds():.0f} s: {locked}"
        say(log, logging.WARNING, "schedule.held", text)

    def free(self, ids: Collection[int]) -> None:
        """Log it of those that could be taken; nearly always there are none to log."""
        if not self._names:
            return
        for id_ in ids:
            if (name := self._names.pop(id_, None)) is not None:
                text = f"Schedule {name} is put off no more: it could be taken"
                say(log, logging.INFO, "schedule.back", text)
