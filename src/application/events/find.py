"""Finds what nobody wrote an event for, and adds it to the outbox: one row for each target.

A kind of event is a row of `KINDS`: how it is found, and what is told of it.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import attrs

from cronhare.domain.events import events
from cronhare.domain.events.events import Event
from cronhare.domain.events.outbox import (
    ENDS,
    EXPIRES_AFTER,
    LOOKS_BACK,
    OutboxRow,
    RunEnd,
    end_of,
    start_of,
)
from cronhare.domain.events.targets import EventKind, Subscriptions
from cronhare.domain.execution import Execution, State
from cronhare.domain.nodes import has_passed
from cronhare.ports import LedgerRefused
from cronhare.ports.events import EventStorePort, Page

from ..logs import say

log = logging.getLogger(__name__)

#: Refused events of which it is remembered that they were said; then all are said again.
MOST_SAID: Final = 10_000

#: Refusals while the refused rows are searched for: few are found in so many, and a ledger that
#: takes none at all is asked no further.
MOST_REFUSALS: Final = 50

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


class Adder:
    """Adds what it can. What is refused is found, and refused, look by look: it is said once."""

    def __init__(self, store: EventStorePort) -> None:
        self._store = store
        self._said: set[tuple[str, str]] = set()

    def add(self, rows: Sequence[OutboxRow]) -> bool:
        """Add what is not there yet, in halves where the ledger refuses the whole.

        Those that were refused before come last, lest they use up the refusals that are left.
        False says that others were not tried by themselves: they are to be added once more.
        """
        new = [row for row in rows if _place(row) not in self._said]
        parts, left = [[row for row in rows if _place(row) in self._said], new], MOST_REFUSALS
        while parts and left:
            if not (part := parts.pop()):
                continue
            try:
                self._store.add(part)
            except LedgerRefused as refusal:
                left -= 1
                if len(part) == 1:
                    self.refused(part[0], refusal)
                else:
                    half = len(part) // 2
                    parts += [part[half:], part[:half]]
        return all(_place(row) in self._said for part in parts for row in part)

    def refused(self, row: OutboxRow, refusal: LedgerRefused) -> None:
        """Say who is not told of what."""
        if _place(row) in self._said:
            return
        if len(self._said) >= MOST_SAID:
            self._said.clear()
        self._said.add(_place(row))
        text = f"{row.target} is not told of {row.event_key}: {refusal}"
        say(log, logging.ERROR, "event.refused", text, schedule=row.schedule_name)


def _place(row: OutboxRow) -> tuple[str, str]:
    return row.event_key, row.target


@attrs.frozen(kw_only=True)
class Look:
    """What a look asks for: schedules by their ids, and how late their runs may begin."""

    store: EventStorePort
    ids: Mapping[int, str]
    allowed: Mapping[int, timedelta]
    now: datetime


#: Asks for a page, by `since`, `after` and `limit`; and what is told of a run, if anything is.
Query: TypeAlias = Callable[..., Page]
Maker: TypeAlias = Callable[[Look, Execution], Event | None]


@attrs.frozen(kw_only=True)
class Kind:
    """A kind of event that is found by looking, in pages of *at_once*."""

    kind: EventKind
    query: Query
    maker: Maker
    at_once: int = MOST_FOUND


def _late_ones(look: Look, **page: Any) -> Page:  # noqa: ANN401 - see `Query`
    by = min(look.allowed.values())
    return look.store.begun_late(look.ids.keys(), by=by, now=look.now, **page)


def _late(look: Look, run: Execution) -> Event | None:
    lateness = (run.started_at or look.now) - run.due_at
    is_late = lateness > look.allowed[run.scheduler_id]
    return events.late(run, now=look.now) if is_late else None


KINDS: Final = (
    Kind(
        kind=EventKind.ARRIVED,
        query=lambda look, **page: look.store.arrivals(look.ids.keys(), **page),
        maker=lambda _look, run: events.arrived(run),
        at_once=ARRIVALS_AT_ONCE,
    ),
    Kind(
        kind=EventKind.SKIPPED,
        query=lambda look, **page: look.store.skips(look.ids.keys(), **page),
        maker=lambda _look, run: events.skipped(run),
    ),
    Kind(kind=EventKind.LATE, query=_late_ones, maker=_late),
)


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
        """Give this one until it is over, then the next."""
        return _Sweep(now, min(self.began, now) - OVERLAP) if self.is_over else self


class Finder:
    """Looks every `FIND_EVERY`, and adds what it finds to the outbox."""

    def __init__(self, store: EventStorePort) -> None:
        self._store = store
        self._adder = Adder(store)
        self._looked_at: datetime | None = None
        self._sweeps: dict[EventKind, _Sweep] = {}
        self._expected_after = 0

    def look(self, subscriptions: Subscriptions, full: Collection[str], now: datetime) -> None:
        """Look, if it is time; *full* targets are left out."""
        if not has_passed(FIND_EVERY, self._looked_at, now):
            return
        for kind in KINDS:
            self._find(kind, subscriptions, full, now)
        self._find_recoveries(subscriptions.source or "", now)
        self._looked_at = now

    def _find(
        self, kind: Kind, subscriptions: Subscriptions, full: Collection[str], now: datetime
    ) -> None:
        """Go on with the sweep of a kind; where nobody wants to know of it, that is over."""
        first = _Sweep(now, now - EXPIRES_AFTER)
        sweep = self._sweeps[kind.kind] = self._sweeps.get(kind.kind, first).at(now)
        names, source = subscriptions.wanting(kind.kind), subscriptions.source or ""
        ids = self._store.schedule_ids(names, source=source) if names else {}
        if not ids:
            sweep.after, sweep.is_over = 0, True
            return
        allowed = {id_: subscriptions.late_after(name) for id_, name in ids.items()}
        look, found = Look(store=self._store, ids=ids, allowed=allowed, now=now), 0
        for _ in range(PAGES):
            page = kind.query(look, since=sweep.since, after=sweep.after, limit=kind.at_once)
            told = [each for each in (kind.maker(look, run) for run in page.found) if each]
            rows = [
                OutboxRow.of(event, target.name, source=source, now=now)
                for event in told
                for target in subscriptions.recipients(event.kind, event.schedule, None)
                if target.name not in full
            ]
            if not self._adder.add(rows):
                return  # the next look comes back to this page
            sweep.after, sweep.is_over = page.next or 0, page.next is None
            found += len(page.found)
            if sweep.is_over or found >= MOST_FOUND:
                return

    def _find_recoveries(self, source: str, now: datetime) -> None:
        """Look for those that are expected, some at a time and again from the first of them."""
        rows = self._store.expected(source=source, after=self._expected_after, limit=MOST_EXPECTED)
        for expected in rows:
            failed_at = expected.occurred_at
            try:
                success = self._store.first_success(expected.scheduler_id, after=failed_at, by=now)
                if success is not None:
                    event = events.recovered(
                        success, failed_at=failed_at, failed_execution_id=expected.execution_id
                    )
                    self._store.recover(expected, event, now=now)
            except LedgerRefused as refusal:
                self._adder.refused(expected, refusal)
        self._expected_after = rows[-1].id if len(rows) == MOST_EXPECTED else 0


class Pinger:
    """Finds runs that have begun or ended of which a service is pinged, in each round.

    A service measures from the start to the end.
    """

    def __init__(self, store: EventStorePort) -> None:
        self._store = store
        self._adder = Adder(store)
        self._added = OrderedDict[tuple[int, int], None]()
        self._after = 0

    def look(self, subscriptions: Subscriptions, full: Collection[str], now: datetime) -> None:
        """Look once; *full* targets are left out."""
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
            if run.state in ENDS:
                end = ends.get(run.id, RunEnd())
                rows.append(end_of(run, end, target, source=source, now=now))
            elif run.state is State.RUNNING and run.attempt == 1:
                rows.append(start_of(run, target, source=source, now=now))
        self._adder.add(rows)
        self._after = page.next or 0
        self._added.update(dict.fromkeys((run.id, run.version) for run in found))
        while len(self._added) > MOST_REMEMBERED:
            self._added.popitem(last=False)
