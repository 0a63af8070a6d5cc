"""Finds what others want to know, and adds it to the outbox: one row for each target."""

import logging
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

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
from cronhare.domain.texts.words import counted
from cronhare.ports import LedgerRefused
from cronhare.ports.events import EventStorePort

from ..logs import say

log = logging.getLogger(__name__)

#: Refused events of which it is remembered that they were said; then all are said again.
MOST_SAID: Final = 10_000


#: Refusals of a look's events of one kind, while the refused ones are searched for: few events
#: are found in so many, and a ledger that takes none at all is asked no further.
MOST_REFUSALS: Final = 50


class Adder:
    """Adds what it can. What is refused is found, and refused, look by look: it is said once."""

    def __init__(self, store: EventStorePort) -> None:
        self._store = store
        self._said: set[tuple[str, str]] = set()
        self._refusals_left = MOST_REFUSALS

    def begin(self) -> None:
        """Begin a look for events of one kind."""
        self._refusals_left = MOST_REFUSALS

    def add(self, rows: Sequence[OutboxRow]) -> bool:
        """Add what is not there yet, in halves where the ledger refuses the whole.

        Those that were refused before come last, lest they use up the refusals that are left.
        False says that others were not tried by themselves: they are to be added once more.
        """
        refused = [row for row in rows if _place(row) in self._said]
        is_over = self._add([row for row in rows if _place(row) not in self._said])
        if self._refusals_left > 0:
            self._add(refused)
        return is_over

    def _add(self, rows: Sequence[OutboxRow]) -> bool:
        if not rows:
            return True
        try:
            self._store.add(rows)
        except LedgerRefused as refusal:
            self._refusals_left -= 1
            if len(rows) == 1:
                self.refused(rows[0], refusal)
                return True
            half = len(rows) // 2
            return all(
                self._refusals_left > 0 and self._add(part) for part in (rows[:half], rows[half:])
            )
        return True

    def refused(self, row: OutboxRow, refusal: LedgerRefused) -> None:
        """Say who is not told of what."""
        place = _place(row)
        if place in self._said:
            return
        if len(self._said) >= MOST_SAID:
            self._said.clear()
        self._said.add(place)
        text = f"{row.target} is not told of {row.event_key}: {refusal}"
        say(log, logging.ERROR, "event.refused", text, schedule=row.schedule_name)


def _place(row: OutboxRow) -> tuple[str, str]:
    return row.event_key, row.target


#: So many events may wait for a target of a jobs file.
MOST_WAITING: Final = 100_000


@attrs.define(eq=False)
class Backlog:
    """Knows which targets are full, and counts what they are not told of.

    Bad ends wait in the archive meanwhile; arrivals, skips and late starts are left out.
    """

    _store: EventStorePort
    _left_out: dict[str, set[str]] = attrs.field(init=False, factory=dict[str, set[str]])

    def full(self, subscriptions: Subscriptions) -> Collection[str]:
        """Name the targets that are full now; what changes is said once."""
        if subscriptions.is_empty:
            return ()
        waiting = self._store.waiting(subscriptions.names, source=subscriptions.source or "")
        full = {name for name, rows in waiting.items() if rows >= MOST_WAITING}
        for name in sorted(full - self._left_out.keys()):
            self._left_out[name] = set()
            text = (
                f"{MOST_WAITING:,} events wait for {name}: its other failures wait in the archive, "
                "for a day at most; of arrivals, skips and late starts it is told no more"
            )
            say(log, logging.WARNING, "event.full", text)
        for name in sorted(self._left_out.keys() - full):
            missed = counted(len(self._left_out.pop(name)), "arrival, skip or late start")
            text = f"{name} is told of events again; of {missed} it was not told"
            say(log, logging.WARNING, "event.full", text)
        return full

    def leave_out(self, target: str, event_id: str) -> None:
        """Count an event that a full target is not told of, each once."""
        if len(missed := self._left_out[target]) < MOST_WAITING:
            missed.add(event_id)


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
            self._store.recover(
                expected,
                events.recovered(
                    success,
                    failed_at=expected.occurred_at,
                    failed_execution_id=expected.execution_id,
                ),
                now=now,
            )

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


#: Runs that a look finds; the next one finds the others.
MOST_PINGED: Final = 1_000

#: Runs of which it is remembered that they were added: others are added again, to no effect.
MOST_REMEMBERED: Final = 10_000


class Pinger:
    """Looks in each round of the announcer: a service measures from the start to the end."""

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
        self._adder.begin()
        self._adder.add(rows)
        self._after = page.next or 0
        for run in found:
            self._added[run.id, run.version] = None
        while len(self._added) > MOST_REMEMBERED:
            self._added.popitem(last=False)
