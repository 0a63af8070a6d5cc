"""Planning a page of schedules of which one cannot be written: the others go on, in smaller pages.

Its values are refused, or what is to be written is locked: a gap between executions, say.
"""

import logging
import time
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Final, TypeVar

from cronhare.application.logs import say
from cronhare.domain.schedules.planning import Planner
from cronhare.ports.ledger import LedgerRefused, LedgerUnavailable

from ..cooldown import Cooldown
from ..dialect import InDoubt, Locked
from ..transactions.lock_waits import NOT_AT_ALL, limit_lock_wait
from .lock_backoff import LockBackoff, LockedSchedulesLog
from .page_planner import PagePlanner

A = TypeVar("A")

log = logging.getLogger(__name__)

#: After so many schedules of which not even a problem could be written, what looks like an outage
#: is one. Each costs transactions on a server that may be in trouble.
MOST_DOUBTED: Final = 3

#: So many seconds a call goes on behind what is locked: on MySQL each of those takes one.
_LONGEST_CALL: Final = 10.0


class PageBisection:
    """Takes pages of schedules, and bisects those that fail.

    A page that is refused is bisected from call to call. Pages that meet a lock are halved, grow
    again later, and wait for no lock meanwhile: whoever holds one may hold others.
    """

    def __init__(
        self,
        left_out: Cooldown,
        problems: Cooldown,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Share *left_out*, and the *problems* of what was refused, with other kinds of pages.

        *monotonic* counts seconds.
        """
        self._left_out = left_out
        self._problems = problems
        self._locked = LockBackoff()
        self._locked_log = LockedSchedulesLog()
        self._monotonic = monotonic
        self._most: int | None = None
        self._parts: dict[str, tuple[int, ...]] = {}
        self._doubted = set[int]()  # left out in what may have been an outage after all

    def locked(self, now: datetime) -> Collection[int]:
        """Give the schedules that are left out as others have them locked."""
        return self._locked.at(now)

    def passed_over(self, now: datetime) -> Collection[int]:
        """Give the schedules that are left out of pages."""
        return {*self._left_out.at(now), *self._locked.at(now)}

    def take(
        self,
        limit: int,
        planner: Planner,
        take: Callable[[int, PagePlanner], A],
        *,
        series: str,
        now: datetime,
    ) -> A:
        """Take a page of schedules; if that fails a part of it, and the rest with later calls.

        A schedule refused alone is recorded as unplannable for a minute, or each look would bisect
        again. If not even that can be written it is left out, and the page goes on behind it; so
        does it behind what is locked, for which no page waits once a lock was met. *take* notes
        which rows it has found, and finds none that are passed over. In each *series* a page begins
        where the one before it has ended.

        Raises:
            LedgerUnavailable: of a whole page, and of the next schedule, nothing can be written; of
                fewer, if it looks like an outage; or asking for locked ones took long. The next
                call goes on behind that.
        """
        page = PagePlanner(planner, self._problems, limit=limit, now=now)
        began = self._monotonic()
        size = self._next_size(series, limit)
        while True:
            page.note(())
            asked = self._monotonic()
            try:
                with limit_lock_wait(self._lock_wait(now)):
                    taken = take(size, page)
            except Locked as locked:
                if size > 1:
                    size = self._most = max(min(size, page.size) // 2, 1)
                    continue
                if page.first is None:
                    raise
                ended = self._monotonic()
                wait = self._locked.note(page.first, now, timedelta(seconds=ended - asked))
                self._locked_log.note(page.first, page.name, wait, locked)
                if ended - began > _LONGEST_CALL:
                    raise
            except (LedgerRefused, InDoubt) as refusal:
                size = self._smaller(size, page, refusal, series=series, now=now)
            else:
                if not page.size and self._is_to_begin_anew(page, series=series):
                    size = limit
                    continue
                if page.size < size:
                    self._parts.pop(series, None)  # nothing is left behind it
                self._grow(limit)
                self._locked.free(page.ids, now)
                self._locked_log.free(page.ids)
                self._blame_doubted(page)
                return taken

    def _smaller(
        self,
        size: int,
        page: PagePlanner,
        refusal: LedgerRefused | InDoubt,
        *,
        series: str,
        now: datetime,
    ) -> int:
        """Bisect what was refused, or go on without it if it is alone; gives the next size."""
        found = min(size, page.size or size)
        if found > 1:
            half = found // 2
            self._parts[series] = (found - half, *self._parts.get(series, ()))
            return half
        if isinstance(refusal, InDoubt) and (
            page.first is None or len(page.doubted) >= MOST_DOUBTED
        ):
            self._give_up(page, series=series)
            raise refusal
        if page.first is None or not page.left:
            text = f"{refusal}; of {page.limit + 1} schedules, one after another, none is accepted"
            raise LedgerUnavailable(text) from refusal
        if page.first not in page.refused:
            reason = f"the ledger refuses what follows: {refusal}"
            page.refused[page.first] = reason
            self._problems.note(page.first, now, reason)
            return 1
        page.left -= 1
        self._left_out.note(page.first, now)
        if isinstance(refusal, InDoubt):
            page.doubted[page.first] = page.name, refusal
        else:
            _log_left_out(page.name, refusal)
        return self._next_size(series, 1)

    def _is_to_begin_anew(self, page: PagePlanner, *, series: str) -> bool:
        """Tell whether nothing is left only because earlier calls left out what they doubted.

        Raises:
            InDoubt: this call did, and no other schedule could tell.
        """
        if page.doubted:
            self._give_up(page, series=series)
        was_doubted = bool(self._doubted)
        self._forget_doubted()
        for _, doubt in page.doubted.values():
            raise doubt
        return was_doubted

    def _blame_doubted(self, page: PagePlanner) -> None:
        """Log that it was their own fault, if others were written."""
        for name, doubt in page.doubted.values() if page.size else ():
            _log_left_out(name, doubt)
        self._forget_doubted()

    def _forget_doubted(self) -> None:
        for id_ in self._doubted:
            self._left_out.forget(id_)
        self._doubted.clear()

    def _give_up(self, page: PagePlanner, *, series: str) -> None:
        """Begin anew with the next call; what is left out stays so until anything is written."""
        for id_ in page.refused:
            self._problems.forget(id_)
        self._doubted.update(page.doubted)
        self._parts.pop(series, None)

    def _next_size(self, series: str, otherwise: int) -> int:
        """Give the size of the next part of what was bisected."""
        part, *rest = self._parts.pop(series, (otherwise,))
        size = min(part, self._most or part)
        if size < part and rest:
            rest = [part - size, *rest]
        if rest:
            self._parts[series] = tuple(rest)
        return size

    def _lock_wait(self, now: datetime) -> int | None:
        has_met_lock = self._most is not None or self._locked.is_any_known(now)
        return NOT_AT_ALL if has_met_lock else None

    def _grow(self, limit: int) -> None:
        if self._most is not None:
            self._most = 2 * self._most if 2 * self._most < limit else None


def _log_left_out(name: str, refusal: LedgerRefused | InDoubt) -> None:
    """Log it: nothing else shows it."""
    text = f"Schedule {name} is passed over, for not even its problem can be written: {refusal}"
    say(log, logging.ERROR, "schedule.refused", text)
