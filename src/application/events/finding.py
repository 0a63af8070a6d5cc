"""Finds arrivals, skips, late starts and recoveries: nobody wrote events when they happened."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle import events
from cronhare.domain.lifecycle.events import EXPIRES_AFTER, Event, OutboxRow
from cronhare.domain.retries.leaps import has_passed
from cronhare.domain.schedules.notify import EventKind, Subscriptions
from cronhare.ports import LedgerRefused
from cronhare.ports.events import EventStorePort

from .adding import Adder
from .backlog import Backlog

#: Between two looks.
FIND_EVERY: Final = timedelta(seconds=10)

#: Events that a look finds of a kind; the next one goes on from there.
MOST_FOUND: Final = 10_000

#: Arrivals of a page, and pages of a look: each run is one, and has its params.
ARRIVALS_AT_ONCE: Final = 1_000
ARRIVAL_PAGES: Final = MOST_FOUND // ARRIVALS_AT_ONCE

#: Pages of as many runs that a look for late starts looks at: most runs begin in time.
LATE_PAGES: Final = 10

#: Recoveries that a look asks for, one by one.
MOST_EXPECTED: Final = 500

#: Rows that are written late are found by looking back so far.
OVERLAP: Final = timedelta(minutes=2)


@attrs.define(eq=False)
class _Sweep:
    """One way through all that happened since a time, page by page; several looks may take it.

    The first goes back for as long as an event is told at all: nobody may have looked meanwhile.
    """

    began: datetime
    since: datetime
    after: int = 0
    is_over: bool = False

    @classmethod
    def first(cls, now: datetime) -> "_Sweep":
        return cls(now, now - EXPIRES_AFTER)

    def at(self, now: datetime) -> "_Sweep":
        """Give this one until it is over, then the next."""
        return _Sweep(now, min(self.began, now) - OVERLAP) if self.is_over else self

    def turn(self, after: int | None) -> None:
        """Go on *after* a page, if it was not the last."""
        self.after, self.is_over = after or 0, after is None


class Finder:
    """Looks every `FIND_EVERY`, and adds what it finds to the outbox."""

    def __init__(self, *, store: EventStorePort, backlog: Backlog) -> None:
        """*backlog* counts what full targets are not told of."""
        self._store = store
        self._adder = Adder(store)
        self._backlog = backlog
        self._looked_at: datetime | None = None
        self._sweeps: dict[EventKind, _Sweep] = {}
        self._expected_after = 0

    def look(self, subscriptions: Subscriptions, full: Collection[str], now: datetime) -> None:
        """Look, if it is time; *full* targets are left out."""
        if not has_passed(FIND_EVERY, self._looked_at, now):
            return
        self._find_arrivals(subscriptions, full, now)
        self._find_skips(subscriptions, full, now)
        self._find_late(subscriptions, full, now)
        self._find_recoveries(subscriptions.source or "", now)
        self._looked_at = now

    def _find_arrivals(
        self, subscriptions: Subscriptions, full: Collection[str], now: datetime
    ) -> None:
        sweep, ids = self._begin(EventKind.ARRIVED, subscriptions, now)
        if not ids:
            return
        for _ in range(ARRIVAL_PAGES):
            page = self._store.arrivals(
                ids, since=sweep.since, after=sweep.after, limit=ARRIVALS_AT_ONCE
            )
            arrived = [events.arrived(one) for one in page.found]
            if not self._add(arrived, subscriptions, full, now):
                return
            sweep.turn(page.next)
            if sweep.is_over:
                return

    def _find_skips(
        self, subscriptions: Subscriptions, full: Collection[str], now: datetime
    ) -> None:
        sweep, ids = self._begin(EventKind.SKIPPED, subscriptions, now)
        if not ids:
            return
        page = self._store.skips(ids, since=sweep.since, after=sweep.after, limit=MOST_FOUND)
        if self._add([events.skipped(one) for one in page.found], subscriptions, full, now):
            sweep.turn(page.next)

    def _find_late(
        self, subscriptions: Subscriptions, full: Collection[str], now: datetime
    ) -> None:
        sweep, ids = self._begin(EventKind.LATE, subscriptions, now)
        if not ids:
            return
        allowed = {name: subscriptions.late_after(name) for name in ids.values()}
        found = 0
        for _ in range(LATE_PAGES):
            page = self._store.begun_late(
                ids,
                by=min(allowed.values()),
                now=now,
                since=sweep.since,
                after=sweep.after,
                limit=MOST_FOUND,
            )
            late = [
                events.late(one, now=now)
                for one in page.found
                if _lateness(one, now) > allowed[ids[one.scheduler_id]]
            ]
            if not self._add(late, subscriptions, full, now):
                return
            sweep.turn(page.next)
            found += len(page.found)
            if sweep.is_over or found >= MOST_FOUND:
                return

    def _find_recoveries(self, source: str, now: datetime) -> None:
        """Look for those that are expected, some at a time and again from the first of them."""
        rows = self._store.expected(source=source, after=self._expected_after, limit=MOST_EXPECTED)
        for expected in rows:
            try:
                self._find_recovery(expected, now)
            except LedgerRefused as refusal:
                self._adder.refused(expected, refusal)
        self._expected_after = rows[-1].id if len(rows) == MOST_EXPECTED else 0

    def _find_recovery(self, expected: OutboxRow, now: datetime) -> None:
        success = self._store.first_success(
            expected.scheduler_id, after=expected.occurred_at, by=now
        )
        if success is not None:
            self._store.recover(expected, events.recovered(expected, success), now=now)

    def _begin(
        self, kind: EventKind, subscriptions: Subscriptions, now: datetime
    ) -> tuple[_Sweep, Mapping[int, str]]:
        """Give where the look for a kind goes on, and the schedules of which somebody is told it.

        Where nobody is, the sweep is over.
        """
        self._adder.begin()
        sweep = self._sweeps.get(kind, _Sweep.first(now)).at(now)
        self._sweeps[kind] = sweep
        names = subscriptions.wanting(kind)
        ids = self._store.schedule_ids(names, source=subscriptions.source or "") if names else {}
        if not ids:
            sweep.turn(None)
        return sweep, ids

    def _add(
        self,
        found: Sequence[Event],
        subscriptions: Subscriptions,
        full: Collection[str],
        now: datetime,
    ) -> bool:
        """Add a page of them; False: the next look is to come back to it."""
        source, rows = subscriptions.source or "", list[OutboxRow]()
        for event in found:
            for target in subscriptions.recipients(event.kind, event.schedule, None):
                if target.name in full:
                    self._backlog.leave_out(target.name, event.id)
                else:
                    rows.append(OutboxRow.of(event, target.name, source=source, now=now))
        return self._adder.add(rows)


def _lateness(execution: Execution, now: datetime) -> timedelta:
    return (execution.started_at or now) - execution.due_at
