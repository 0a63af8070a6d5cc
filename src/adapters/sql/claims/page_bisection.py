"""Taking a page of schedules of which one cannot be written: the others go on, in smaller pages.

Its values are refused, or somebody holds what is to be written: a gap between executions, say.
"""

import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from sqlalchemy import Row

from cronhare.domain.schedules.planning import Plan, Planned, Planner
from cronhare.ports.ledger import LedgerRefused, LedgerUnavailable

from ..cooldown import Cooldown
from ..dialect import (
    InDoubt,
    Locked,
)
from ..mapping.execution_rows import answer_to
from ..transactions.lock_waits import (
    NOT_AT_ALL,
    limit_lock_wait,
)
from .lock_backoff import LockBackoff
from .put_off_log import (
    LockedSchedulesLog,
    tell_passed_over,
)

A = TypeVar("A")

#: After so many schedules, of which not even a problem could be written, what looks like an outage
#: is one. Each costs a server some transactions that may be in trouble.
MOST_DOUBTED: Final = 3

#: So many seconds a call goes on behind what is locked: on MySQL each of those takes one.
_LONGEST_CALL: Final = 10.0


class PageBisection:
    """Takes pages of schedules, of one kind, and divides those of which something is wrong.

    What was refused together is taken by halves, from call to call. After what was locked pages
    grow again likewise, and wait for nobody meanwhile: whoever locked one may hold others.
    """

    def __init__(
        self,
        refused: Cooldown,
        lately: Cooldown,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """What is *refused*, now or *lately*, is so for other kinds of pages as well.

        *monotonic* counts seconds.
        """
        self._refused = refused
        self._lately = lately
        self._locked = LockBackoff()
        self._held = LockedSchedulesLog()
        self._monotonic = monotonic
        self._most: int | None = None
        self._parts: dict[str, tuple[int, ...]] = {}
        self._in_vain = set[int]()  # passed over in what was an outage after all, perhaps

    def locked(self, now: datetime) -> Collection[int]:
        """Give the schedules that are passed over for what others hold."""
        return self._locked.at(now)

    def passed_over(self, now: datetime) -> Collection[int]:
        """Give the schedules that are left out of pages."""
        return {*self._refused.at(now), *self._locked.at(now)}

    def take(
        self,
        limit: int,
        planner: Planner,
        take: Callable[[int, "PagePlanner"], A],
        *,
        series: str,
        now: datetime,
    ) -> A:
        """Take a page of schedules; if that fails a part of them, and the rest with later calls.

        The one schedule that is refused alone is taken as one that cannot be planned, and for a
        minute at once: very many would be divided by each look otherwise. Where not even that can
        be written it is passed over, and the page goes on behind it; so it is for what others keep
        locked, for which nobody waits once one was found so. *take* tells which rows it has found,
        and finds none that are passed over. In each *series* a page begins where the one before it
        has ended.

        Raises:
            LedgerUnavailable: of a whole page, and of the next schedule, nothing can be written; of
                fewer, if it looks like an outage; or to ask for what others keep locked took long.
                The next call goes on behind that.
        """
        noting = PagePlanner(planner, self._lately, limit=limit, now=now)
        began = self._monotonic()
        size = self._next(series, limit)
        while True:
            noting.note(())
            asked = self._monotonic()
            try:
                with limit_lock_wait(self._seconds(now)):
                    taken = take(size, noting)
            except Locked as locked:
                if size > 1:
                    size = self._most = max(min(size, noting.size) // 2, 1)
                    continue
                if noting.first is None:
                    raise
                ended = self._monotonic()
                wait = self._locked.note(noting.first, now, timedelta(seconds=ended - asked))
                self._held.tell(noting.first, noting.name, wait, locked)
                if ended - began > _LONGEST_CALL:
                    raise
            except (LedgerRefused, InDoubt) as refusal:
                size = self._smaller(size, noting, refusal, series=series, now=now)
            else:
                if not noting.size and self._is_to_begin_anew(noting, series=series):
                    size = limit
                    continue
                if noting.size < size:
                    self._parts.pop(series, None)  # nothing is left behind it
                self._grow(limit)
                self._locked.free(noting.ids, now)
                self._held.are_free(noting.ids)
                self._judge(noting)
                return taken

    def _smaller(
        self,
        size: int,
        noting: "PagePlanner",
        refusal: LedgerRefused | InDoubt,
        *,
        series: str,
        now: datetime,
    ) -> int:
        """Divide what was refused, or do without the one that is; gives the size to go on with."""
        found = min(size, noting.size or size)
        if found > 1:
            half = found // 2
            self._parts[series] = (found - half, *self._parts.get(series, ()))
            return half
        if isinstance(refusal, InDoubt) and (
            noting.first is None or len(noting.in_vain) >= MOST_DOUBTED
        ):
            self._give_up(noting, series=series)
            raise refusal
        if noting.first is None or not noting.left:
            text = (
                f"{refusal}; of {noting.limit + 1} schedules, one after another, none is accepted"
            )
            raise LedgerUnavailable(text) from refusal
        if noting.first not in noting.refused:
            reason = f"the ledger refuses what follows: {refusal}"
            noting.refused[noting.first] = reason
            self._lately.note(noting.first, now, reason)
            return 1
        noting.left -= 1
        self._refused.note(noting.first, now)
        if isinstance(refusal, InDoubt):
            noting.in_vain[noting.first] = noting.name, refusal
        else:
            tell_passed_over(noting.name, refusal)
        return self._next(series, 1)

    def _judge(self, noting: "PagePlanner") -> None:
        """Say whose fault it was that looked like an outage: theirs, for others were written."""
        for name, doubt in noting.in_vain.values() if noting.size else ():
            tell_passed_over(name, doubt)
        self._acquit()

    def _is_to_begin_anew(self, noting: "PagePlanner", *, series: str) -> bool:
        """Tell whether nothing is left because all are passed over that were asked in vain.

        Raises:
            InDoubt: they were just now, and there is nobody else who could tell.
        """
        if noting.in_vain:
            self._give_up(noting, series=series)
        was_in_vain = bool(self._in_vain)
        self._acquit()
        for _, doubt in noting.in_vain.values():
            raise doubt
        return was_in_vain

    def _acquit(self) -> None:
        for id_ in self._in_vain:
            self._refused.forget(id_)
        self._in_vain.clear()

    def _give_up(self, noting: "PagePlanner", *, series: str) -> None:
        """Begin anew with the next call. Who was passed over is so until anything is written."""
        for id_ in noting.refused:
            self._lately.forget(id_)
        self._in_vain.update(noting.in_vain)
        self._parts.pop(series, None)

    def _next(self, series: str, otherwise: int) -> int:
        """Give the size of the next part of what was divided."""
        part, *rest = self._parts.pop(series, (otherwise,))
        size = min(part, self._most or part)
        if size < part and rest:
            rest = [part - size, *rest]
        if rest:
            self._parts[series] = tuple(rest)
        return size

    def _seconds(self, now: datetime) -> int | None:
        waits_for_no_lock = self._most is not None or self._locked.is_any_known(now)
        return NOT_AT_ALL if waits_for_no_lock else None

    def _grow(self, limit: int) -> None:
        if self._most is not None:
            self._most = 2 * self._most if 2 * self._most < limit else None


class PagePlanner:
    """A planner that knows which page it is asked for.

    Of the schedules in *refused* it only says what is wrong; so it does of those that were refused
    lately, unless they were edited since.
    """

    def __init__(self, planner: Planner, lately: Cooldown, *, limit: int, now: datetime) -> None:
        self.ids: Sequence[int] = ()
        self.limit = self.left = limit
        self.refused: dict[int, str] = {}
        #: Not even whose problem could be written, it seems: their names, and what was said.
        self.in_vain: dict[int, tuple[str, InDoubt]] = {}
        self.name = ""
        self._lately = lately
        self._reasons = lately.at(now)
        self._planner = planner

    @property
    def size(self) -> int:
        """How many schedules were found."""
        return len(self.ids)

    @property
    def first(self) -> int | None:
        """The first of them."""
        return self.ids[0] if self.ids else None

    def note(self, looks: Sequence[Row[Any]]) -> None:
        """Take note of the page that was found."""
        self.ids = [look.id or look.planned_id for look in looks]
        self.name = answer_to(looks[0].name, self.ids[0]) if looks else ""

    def __call__(self, planned: Planned) -> Plan:
        """Plan a schedule, or say what is wrong."""
        id_ = planned.schedule.id
        reason = self.refused.get(id_)
        if reason is None and planned.edited:
            self._lately.forget(id_)
        elif reason is None:
            reason = self._reasons.get(id_)
        return self._planner(planned) if reason is None else Plan(problem=reason)
