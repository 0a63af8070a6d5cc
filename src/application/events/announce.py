"""Looks round by round for what others want to know, and expires what nobody could be told.

Every process with a jobs file does so for its own source. Bad ends wait in the archive, which is
written with them; what nobody wrote down is found again and again, and added once.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.domain.events import events
from cronhare.domain.events.outbox import EXPIRES_AFTER, OutboxRow
from cronhare.domain.events.targets import EventKind, Subscribers, Subscriptions
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.nodes import has_passed
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.texts.words import counted
from cronhare.ports.events import EventStorePort
from cronhare.ports.system import ClockPort

from ..logs import say
from .alerting import AlertWatch
from .find import Finder, Pinger

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
        judges = self.alerts.look(subscriptions, now)
        self.expire(now)
        if more or judges:
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
