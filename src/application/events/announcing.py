"""Finds what others want to know, and adds it to the outbox: one row for each target.

Every process with a jobs file does so for its own source. Bad ends wait in the archive, which is
written with them; what nobody wrote down is found again and again, and added once.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle import events
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.events import EXPIRES_AFTER, Event, OutboxRow
from cronhare.domain.schedules.notify import EventKind, Subscriptions
from cronhare.domain.texts.listing import counted
from cronhare.ports.clock import ClockPort
from cronhare.ports.events import EventStorePort
from cronhare.ports.ledger import LedgerRefused

from ..logs import say
from .alerting import AlertWatch
from .subscribers import Subscribers

log = logging.getLogger(__name__)

#: Seconds between two rounds; where nobody wants to know anything, bad ends are only let go.
EVERY: Final = 2.0
EVERY_FOR_NOBODY: Final = 30.0

#: Between two looks for what nobody wrote down, and for what has expired.
FIND_EVERY: Final = timedelta(seconds=10)
EXPIRE_EVERY: Final = timedelta(minutes=10)

#: Rows that one transaction takes, and such transactions in a round.
PAGE, PAGES = 500, 20

#: So many events may wait for a target: the archive keeps the others meanwhile.
MOST_WAITING: Final = 100_000

#: A bad end of which this file knows neither schedule nor task is left to others for so long.
LEFT_TO_OTHERS: Final = timedelta(minutes=1)

#: How long what was told is kept.
KEPT_FOR: Final = timedelta(days=30)

#: Rows that are written late are found by looking back so far.
OVERLAP: Final = timedelta(minutes=2)


class Announcer:
    """Looks round by round; *clock* is the ledger's."""

    def __init__(
        self,
        *,
        store: EventStorePort,
        alerts: AlertWatch,
        subscribers: Subscribers,
        clock: ClockPort,
    ) -> None:
        """The subscriptions are read anew in each round: a reload may have changed them."""
        self._store = store
        self._alerts = alerts
        self._subscribers = subscribers
        self._clock = clock
        self._found_at: datetime | None = None
        self._expired_at: datetime | None = None
        self._is_full = False

    def round(self) -> float:
        """Look once; answers how many seconds to rest."""
        now, subscriptions = self._clock.now(), self._subscribers.current
        if subscriptions.source is None:
            return EVERY_FOR_NOBODY
        more = False
        if self._has_room(subscriptions):
            more = self._announce(subscriptions, now)
            self._find(subscriptions, now)
        self._alerts.look(subscriptions, now)
        self._expire(now)
        if more:
            return 0.0
        return EVERY_FOR_NOBODY if subscriptions.is_empty else EVERY

    def _has_room(self, subscriptions: Subscriptions) -> bool:
        """Tell whether no target has too much to hear already."""
        if subscriptions.is_empty:
            return True
        was_full = self._is_full
        self._is_full = self._store.waiting(subscriptions.names) >= MOST_WAITING
        if self._is_full and not was_full:
            text = f"{MOST_WAITING:,} events wait for one target; others wait in the archive"
            say(log, logging.WARNING, "event.full", text)
        return not self._is_full

    def _announce(self, subscriptions: Subscriptions, now: datetime) -> bool:
        """Take bad ends page by page; answers whether there may be more."""
        source = subscriptions.source or ""
        for _ in range(PAGES):
            found = self._store.bad_ends(
                source=source, refs=subscriptions.refs.keys(), now=now, limit=PAGE
            )
            known = [one for one in found if _is_known(one, subscriptions)]
            strange = [one for one in found if not _is_known(one, subscriptions)]
            if strange:
                later = {one.id: () for one in strange}
                self._store.announce(later, now=now, until=now + LEFT_TO_OTHERS)
            if known:
                rows = {one.id: _rows_of(one, subscriptions, now) for one in known}
                self._announce_page(rows, now)
            if len(found) < PAGE:
                return False
        return True

    def _announce_page(self, rows: Mapping[int, Sequence[OutboxRow]], now: datetime) -> None:
        """Announce a page; of what the ledger refuses of it, that one end alone is not told."""
        try:
            self._store.announce(rows, now=now, until=None)
        except LedgerRefused:
            for id_, its in rows.items():
                try:
                    self._store.announce({id_: its}, now=now, until=None)
                except LedgerRefused as refusal:
                    text = f"Nobody is told of failure {id_}: {refusal}"
                    say(log, logging.ERROR, "event.refused", text)
                    self._store.announce({id_: ()}, now=now, until=None)

    def _find(self, subscriptions: Subscriptions, now: datetime) -> None:
        """Find skips, late starts and recoveries, where somebody wants to know of them."""
        last = self._found_at
        if last is not None and timedelta(0) <= now - last < FIND_EVERY:
            return
        since = now - EXPIRES_AFTER if last is None else min(last, now) - OVERLAP
        found = [
            *self._skips(subscriptions, since),
            *self._late(subscriptions, max(since, now - timedelta(minutes=10)), now),
        ]
        source = subscriptions.source or ""
        wanted = [
            OutboxRow.of(event, target.name, source=source, now=now)
            for event in found
            for target in subscriptions.recipients(event.kind, event.schedule, None)
        ]
        if wanted:
            self._store.add(wanted)
        self._recover(source, now)
        self._found_at = now

    def _skips(self, subscriptions: Subscriptions, since: datetime) -> Sequence[Event]:
        ids = self._ids(subscriptions, EventKind.SKIPPED)
        found = self._store.skips(ids, since=since, limit=PAGE * PAGES) if ids else ()
        return [events.skipped(execution) for execution in found]

    def _late(
        self, subscriptions: Subscriptions, since: datetime, now: datetime
    ) -> Sequence[Event]:
        ids = self._ids(subscriptions, EventKind.LATE)
        if not ids:
            return ()
        soonest = min(subscriptions.late_after(name) for name in ids.values())
        found = self._store.begun_late(
            ids, due_before=now - soonest, since=since, limit=PAGE * PAGES
        )
        return [
            events.late(execution, now=now)
            for execution in found
            if _lateness(execution, now) > subscriptions.late_after(ids[execution.scheduler_id])
        ]

    def _ids(self, subscriptions: Subscriptions, kind: EventKind) -> Mapping[int, str]:
        names = subscriptions.wanting(kind)
        if not names:
            return {}
        return self._store.schedule_ids(names, source=subscriptions.source or "")

    def _recover(self, source: str, now: datetime) -> None:
        for expected in self._store.expected(source=source, limit=PAGE):
            success = self._store.first_success(expected.scheduler_id, after=expected.occurred_at)
            if success is not None:
                self._store.recover(expected, events.recovered(expected, success), now=now)

    def _expire(self, now: datetime) -> None:
        """Give up what nobody could be told of, and say so once."""
        last = self._expired_at
        if last is not None and timedelta(0) <= now - last < EXPIRE_EVERY:
            return
        failures = rows = 0
        for _ in range(PAGES):
            expired = self._store.expire(
                before=now - EXPIRES_AFTER, kept_since=now - KEPT_FOR, now=now
            )
            failures += expired.failures
            rows += expired.rows
            if not expired.more:
                self._expired_at = now  # else the next round goes on
                break
        _say_expired(failures, rows)


def _say_expired(failures: int, rows: int) -> None:
    if failures:
        text = (
            f"Nobody was told of {counted(failures, 'failure')} within a day: no worker with the "
            "jobs file of its schedule was there to say who wants to know"
        )
        say(log, logging.WARNING, "event.expired", text)
    if rows:
        those = counted(rows, "event")
        text = f"{those} could not be told within a day; `cronhare events list` has them"
        say(log, logging.WARNING, "event.expired", text)


def _is_known(row: Archived, subscriptions: Subscriptions) -> bool:
    if row.source is None:
        return True  # it was asked for by the numbers of our tasks
    return subscriptions.knows(row.schedule_name, row.task_name)


def _rows_of(row: Archived, subscriptions: Subscriptions, now: datetime) -> Sequence[OutboxRow]:
    event = events.bad_end(row)
    source = subscriptions.source or ""
    task = row.task_name
    if row.source is None:
        task = subscriptions.named(row.task_type, row.task_id)
    recipients = subscriptions.recipients(event.kind, row.schedule_name, task)
    hoping = subscriptions.recipients(EventKind.RECOVERED, row.schedule_name, task)
    return [
        *(OutboxRow.of(event, target.name, source=source, now=now) for target in recipients),
        *(OutboxRow.expecting(event, target.name, source=source, now=now) for target in hoping),
    ]


def _lateness(execution: Execution, now: datetime) -> timedelta:
    return (execution.started_at or now) - execution.due_at
