"""Finds what nobody wrote an event for, and adds it to the outbox: one row for each target."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeAlias

import attrs

from cronhare.domain.events import events
from cronhare.domain.events.events import Event
from cronhare.domain.events.outbox import (
    ENDS,
    EXPIRES_AFTER,
    LOOKS_BACK,
    OutboxRow,
    RunEnd,
    ping_of,
)
from cronhare.domain.events.targets import DEFAULT_LATE_AFTER, EventKind, Subscriptions
from cronhare.domain.execution import Execution
from cronhare.domain.nodes import has_passed
from cronhare.ports.events import EventStorePort, Page

#: Between two looks.
FIND_EVERY: Final = timedelta(seconds=10)

#: Events that a look finds of a kind, and runs that it looks at, in pages; the next one goes on.
MOST_FOUND: Final = 10_000
PAGES: Final = 10

#: Arrivals of a page: each run is one, and has its params.
ARRIVALS_AT_ONCE: Final = 1_000

#: Recoveries that a look asks for, one by one.
MOST_EXPECTED: Final = 500

#: Rows that are written late are found by looking back so far.
OVERLAP: Final = timedelta(minutes=2)

#: Runs to be pinged of that a look finds; the next one finds the others.
MOST_PINGED: Final = 1_000

#: Runs of which it is remembered that they were added: others are added again, to no effect.
MOST_REMEMBERED: Final = 10_000

#: Asks for a page, by `since`, `after` and `limit`; and what is told of a run, if anything is.
Query: TypeAlias = Callable[..., Page]
Maker: TypeAlias = Callable[[Execution], Event | None]


@attrs.define(eq=False)
class _Sweep:
    """One way through all that happened since a time, page by page; several looks may take it.

    The first goes back for as long as an event is told at all: nobody may have looked meanwhile.
    """

    began: datetime
    since: datetime
    after: int = 0
    is_over: bool = False

    def at(self, now: datetime) -> "_Sweep":
        return _Sweep(now, min(self.began, now) - OVERLAP) if self.is_over else self


class Finder:
    """Looks every `FIND_EVERY`, and adds what it finds to the outbox."""

    def __init__(self, store: EventStorePort) -> None:
        self._store = store
        self._looked_at: datetime | None = None
        self._sweeps: dict[EventKind, _Sweep] = {}
        self._expected_after = 0

    def look(self, subscriptions: Subscriptions, full: Collection[str], now: datetime) -> None:
        if not has_passed(FIND_EVERY, self._looked_at, now):
            return
        for kind in (EventKind.ARRIVED, EventKind.SKIPPED, EventKind.LATE):
            self._find(kind, subscriptions, full, now)
        self._find_recoveries(subscriptions.source or "", now)
        self._looked_at = now

    def _find(
        self, kind: EventKind, subscriptions: Subscriptions, full: Collection[str], now: datetime
    ) -> None:
        """Go on with the sweep of a kind; where nobody wants to know of it, that is over."""
        first = _Sweep(now, now - EXPIRES_AFTER)
        sweep = self._sweeps[kind] = self._sweeps.get(kind, first).at(now)
        names, source = subscriptions.wanting(kind), subscriptions.source or ""
        ids = self._store.schedule_ids(names, source=source) if names else {}
        if not ids:
            sweep.after, sweep.is_over = 0, True
            return
        allowed = {
            id_: subscriptions.settings(name, None).late_after or DEFAULT_LATE_AFTER
            for id_, name in ids.items()
        }
        query, maker, at_once = self._ways(kind, allowed, now)
        found = 0
        for _ in range(PAGES):
            page = query(since=sweep.since, after=sweep.after, limit=at_once)
            rows = [
                OutboxRow.of(event, target.name, source=source, now=now)
                for event in map(maker, page.found)
                if event is not None
                for target in subscriptions.recipients(kind, event.schedule, None)
                if target.name not in full
            ]
            if not self._store.add(rows, now=now):
                return  # the next look comes back to this page
            sweep.after, sweep.is_over = page.next or 0, page.next is None
            found += len(page.found)
            if sweep.is_over or found >= MOST_FOUND:
                return

    def _ways(
        self, kind: EventKind, allowed: Mapping[int, timedelta], now: datetime
    ) -> tuple[Query, Maker, int]:
        """Say how runs are found that may be events of a kind, and how many at once."""
        match kind:
            case EventKind.ARRIVED:
                return partial(self._store.arrivals, allowed), events.arrived, ARRIVALS_AT_ONCE
            case EventKind.SKIPPED:
                return partial(self._store.skips, allowed), events.skipped, MOST_FOUND

        def late(run: Execution) -> Event | None:
            lateness = (run.started_at or now) - run.due_at
            return events.late(run, now=now) if lateness > allowed[run.scheduler_id] else None

        by = min(allowed.values())
        return partial(self._store.begun_late, allowed, by=by, now=now), late, MOST_FOUND

    def _find_recoveries(self, source: str, now: datetime) -> None:
        rows = self._store.expected(source=source, after=self._expected_after, limit=MOST_EXPECTED)
        for expected in rows:
            failed_at = expected.occurred_at
            success = self._store.first_success(expected.scheduler_id, after=failed_at, by=now)
            if success is not None:
                event = events.recovered(
                    success, failed_at=failed_at, failed_execution_id=expected.execution_id
                )
                self._store.recover(expected, event, now=now)
        self._expected_after = rows[-1].id if len(rows) == MOST_EXPECTED else 0


class Pinger:
    """Finds runs that have begun or ended of which a service is pinged, in each round."""

    def __init__(self, store: EventStorePort) -> None:
        self._store = store
        self._added = OrderedDict[tuple[int, int], None]()
        self._after = 0

    def look(self, subscriptions: Subscriptions, full: Collection[str], now: datetime) -> None:
        pings = {name: each for name, each in subscriptions.pings.items() if each.name not in full}
        if not pings:
            return
        source = subscriptions.source or ""
        ids = self._store.schedule_ids(pings, source=source)
        page = self._store.begun_or_ended(
            ids, since=now - LOOKS_BACK, after=self._after, limit=MOST_PINGED
        )
        found = [run for run in page.found if (run.id, run.version) not in self._added]
        ends = self._store.run_ends([run.id for run in found if run.state in ENDS])
        rows = list[OutboxRow]()
        for run in found:
            target = pings[ids[run.scheduler_id]].name
            end = ends.get(run.id, RunEnd()) if run.state in ENDS else None
            if end is not None or run.attempt == 1:  # a retry is no start
                rows.append(ping_of(run, end, target, source=source, now=now))
        if not self._store.add(rows, now=now):
            return
        self._after = page.next or 0
        self._added.update(dict.fromkeys((run.id, run.version) for run in found))
        while len(self._added) > MOST_REMEMBERED:
            self._added.popitem(last=False)
