"""What others keep locked, for as long as they like: it is asked for again ever more rarely."""

from collections.abc import Collection
from datetime import datetime, timedelta
from itertools import islice
from threading import Lock
from typing import Final

from ..cooldown import MOST

#: So long at first: some locks of our own last for milliseconds, and nobody has waited for them.
FIRST: Final = timedelta(seconds=2)

#: And so long in the end, unless they are very many. There is no bound that would not have them
#: asked for all the time, where there are many enough, or their neighbours never: see `free`.
LONGEST: Final = timedelta(minutes=1)

#: To ask for all of them takes one part of the time in so many: the rest is for their neighbours.
PARTS: Final = 10


class LockBackoff:
    """Rows of one table by their ids, in this process. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waits: dict[int, tuple[datetime, timedelta]] = {}
        self._forgot: datetime | None = None

    def note(self, id_: int, now: datetime, took: timedelta) -> timedelta:
        """Put a row off that was asked for in vain, which *took* so long; answers for how long.

        Where there is no room, the one goes that came first.
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
        """Put those off no longer that were asked for with success, nor two others for each.

        One transaction keeps many locked: once it ends they are all asked for within a few looks,
        however long they were to rest. If others hold the rest, that costs two questions.
        """
        if not self._waits:
            return
        with self._lock:
            known = [id_ for id_ in ids if self._waits.pop(id_, None) is not None]
            resting = (id_ for id_, (until, _) in self._waits.items() if now < until)
            for id_ in list(islice(resting, 2 * len(known))):
                self._waits[id_] = (now, self._waits[id_][1])

    def at(self, now: datetime) -> Collection[int]:
        """Give what is put off at *now*; nearly always that is nothing."""
        if not self._waits:
            return ()
        with self._lock:
            self._forget(now)
            return {id_ for id_, (until, _) in self._waits.items() if now < until}

    def is_any_known(self, now: datetime) -> bool:
        """Tell whether anything is put off, or was a moment ago: it may be locked still."""
        if not self._waits:
            return False
        with self._lock:
            self._forget(now)
            return bool(self._waits)

    def _forget(self, now: datetime) -> None:
        """What was put off is known for as long again, to be put off for longer."""
        if now == self._forgot:  # one look asks for each of its pages
            return
        self._forgot = now
        self._waits = {
            id_: (until, wait)
            for id_, (until, wait) in self._waits.items()
            if -wait < until - now <= wait  # a clock may be set back
        }
