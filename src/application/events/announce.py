"""Looks round by round for what others want to know, and expires what nobody could be told.

Every process with a jobs file does so for its own source. Bad ends wait in the archive, which is
written with them; of what nobody wrote an event for, one row is added to the outbox for each
target, however often it is found.
"""

import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
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
from cronhare.domain.events.targets import (
    DEFAULT_LATE_AFTER,
    EventKind,
    Subscribers,
    Subscriptions,
)
from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.nodes import has_passed
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.texts.words import counted
from cronhare.ports.events import EventStorePort, Page
from cronhare.ports.system import ClockPort

from ..logs import say
from .alerting import AlertWatch

log = logging.getLogger(__name__)

#: Seconds between two rounds; where nobody wants to know anything, bad ends are only let go.
EVERY: Final = 2.0
EVERY_FOR_NOBODY: Final = 30.0

#: Between two looks for what has expired.
EXPIRE_EVERY: Final = timedelta(minutes=10)

#: Rows that one transaction takes, and such transactions in a round.
PAGE, PAGES = 500, 20

#: So many events may wait for a target of a jobs file.
MOST_WAITING: Final = 100_000

#: A bad end of which this file knows neither schedule nor task is left to others for so long.
UNKNOWN_LEFT_FOR: Final = timedelta(minutes=1)

#: A bad end of which a full target is to be told is looked at again after so long.
LEFT_TO_WAIT: Final = timedelta(minutes=10)

#: How long what was told is kept.
KEPT_FOR: Final = timedelta(days=30)

#: How long a schedule that failed may take to succeed again: one that runs once a year may.
EXPECTED_FOR: Final = timedelta(days=400)


#: Between two looks.
FIND_EVERY: Final = timedelta(seconds=10)

#: Events that a look finds of a kind, and runs that it looks at, in pages; the next one goes on.
MOST_FOUND: Final = 10_000
MOST_PAGES: Final = 10

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
        for _ in range(MOST_PAGES):
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


@attrs.define(kw_only=True, eq=False)
class Announcer:
    """Looks round by round, and reads the subscriptions anew in each: a reload changes them."""

    _store: EventStorePort
    alerts: AlertWatch
    subscribers: Subscribers
    _clock: ClockPort
    _finder: Finder = attrs.field(init=False)
    _pinger: Pinger = attrs.field(init=False)
    _full: frozenset[str] = attrs.field(init=False, default=frozenset())
    _expired_at: datetime | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._finder, self._pinger = Finder(self._store), Pinger(self._store)

    def round(self) -> float:
        """Look once; answers how many seconds to rest."""
        now, subscriptions = self._clock.now(), self.subscribers.current
        if subscriptions.source is None:
            return EVERY_FOR_NOBODY
        self._look_for_full(subscriptions)
        more = self._announce(subscriptions, now)
        self._finder.look(subscriptions, self._full, now)
        self._pinger.look(subscriptions, self._full, now)
        self.alerts.look(subscriptions, now)
        self.expire(now)
        if more:
            return 0.0
        return EVERY_FOR_NOBODY if subscriptions.is_empty else EVERY

    def _look_for_full(self, subscriptions: Subscriptions) -> None:
        """Find the targets for which too much waits: they are told of no more, all others are."""
        names, last = () if subscriptions.is_empty else subscriptions.names, self._full
        waiting = self._store.waiting(names, source=subscriptions.source or "") if names else {}
        self._full = frozenset(name for name, rows in waiting.items() if rows >= MOST_WAITING)
        for name in sorted(self._full - last):
            text = (
                f"{MOST_WAITING:,} events wait for {name}: its other failures wait in the archive, "
                "for a day at most; of arrivals, skips and late starts it is told no more"
            )
            say(log, logging.WARNING, "event.full", text)
        for name in sorted(last - self._full):
            text = (
                f"{name} is told of events again; of arrivals, skips and late starts it missed some"
            )
            say(log, logging.WARNING, "event.full", text)

    def _announce(self, subscriptions: Subscriptions, now: datetime) -> bool:
        """Take bad ends page by page; answers whether there may be more."""
        source, once = subscriptions.source or "", subscriptions.told_once
        for _ in range(PAGES):
            found = self._store.bad_ends(
                source=source, refs=subscriptions.refs.keys(), now=now, limit=PAGE
            )
            these = defaultdict[datetime | None, dict[int, Sequence[OutboxRow]]](dict)
            for one in found:
                # One without a source was asked for by the numbers of our tasks.
                if one.source is None or subscriptions.knows(one.schedule_name, one.task_name):
                    rows = _rows_of(one, subscriptions, now)
                    told = [row for row in rows if row.target not in self._full]
                    until = None if len(told) == len(rows) else now + LEFT_TO_WAIT
                else:
                    told, until = [], now + UNKNOWN_LEFT_FOR
                these[until][one.id] = told
            for until, page in these.items():
                self._store.announce(page, now=now, until=until, once=once)
            if len(found) < PAGE:
                return False
        return True

    def expire(self, now: datetime) -> None:
        if not has_passed(EXPIRE_EVERY, self._expired_at, now):
            return
        failures = rows = 0
        for _ in range(PAGES):
            expired = self._store.expire(
                before=now - EXPIRES_AFTER,
                kept_since=now - KEPT_FOR,
                expected_since=now - EXPECTED_FOR,
                now=now,
            )
            failures += expired.failures
            rows += expired.rows
            if not expired.more:
                self._expired_at = now  # else the next round goes on
                break
        if failures:
            text = (
                f"Nobody was told of {counted(failures, 'failure')} within a day: no worker with "
                "the jobs file of its schedule was there to say who wants to know, or a target had "
                "too much to hear"
            )
            say(log, logging.WARNING, "event.expired", text)
        if rows:
            those = counted(rows, "event")
            text = f"{those} could not be told within a day; `cronhare events list` has them"
            say(log, logging.WARNING, "event.expired", text)


def _rows_of(row: Archived, subscriptions: Subscriptions, now: datetime) -> Sequence[OutboxRow]:
    event, source, task = events.bad_end(row), subscriptions.source or "", row.task_name
    if row.source is None:
        task = subscriptions.refs.get(TaskRef(row.task_type, row.task_id))
    recipients, paused = subscriptions.recipients(event.kind, row.schedule_name, task), []
    if row.paused_after is not None:
        pause = events.paused(row)
        told = subscriptions.recipients(pause.kind, row.schedule_name, task)
        paused = [OutboxRow.of(pause, target.name, source=source, now=now) for target in told]
    hoping = subscriptions.recipients(EventKind.RECOVERED, row.schedule_name, task)
    return [
        *(OutboxRow.of(event, target.name, source=source, now=now) for target in recipients),
        *(OutboxRow.expecting(event, target.name, source=source, now=now) for target in hoping),
        *paused,
    ]
