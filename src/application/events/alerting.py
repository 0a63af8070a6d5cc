"""Alerts: judged once a minute by one process of all, and told by each to its own targets.

Those of the whole ledger may be judged by any process, and are by each scheduler and by those with
a target that asks for alerts; those of schedules by the processes that have the file which asks.
"""

import logging
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.domain.events.alerts import (
    EVERY,
    TOLD_ANEW_AFTER,
    Alert,
    cleared,
    raised,
)
from cronhare.domain.events.judging import judge, judge_schedule, judge_system
from cronhare.domain.events.outbox import OutboxRow, OutboxState
from cronhare.domain.events.rules import AlertConditions, AlertPolicy
from cronhare.domain.events.targets import EventKind, Subscriptions
from cronhare.domain.nodes import MOST_REPORTS, has_passed, served
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.events import AlertChanges, AlertFilter, AlertStorePort, EventStorePort

from ..logs import say

log = logging.getLogger(__name__)

#: After a longer time between two looks the ledger may have been away, and with it all reports. A
#: node that could not report itself for so long does so before it counts as ended.
LONGEST_GAP: Final = timedelta(seconds=20)

#: Schedules whose signs are read at a time.
AT_ONCE: Final = 250

#: Between two looks for the ids of schedules that may alert: one that is new waits so long.
LOOK_UP_EVERY: Final = timedelta(minutes=5)

#: Who was refused, as another judges, asks again after so long: that one may have been killed.
ASK_AGAIN_AFTER: Final = timedelta(seconds=10)

#: Schedules that are judged; of more the first.
MOST_WATCHED: Final = 10_000

#: Alerts of which it is asked at once whether they were told, and rows that are added at once.
_AT_ONCE: Final = 500


@attrs.define(kw_only=True, eq=False)
class LedgerJudge:
    """Judges the alerts of no schedule. Each thread has one of its own; the ledger lets one judge.

    It remembers since when it could look without a gap: what is older says nothing of a node.
    *policy* is best the same on all nodes: any of them may be the one that judges. *now* asks for
    the ledger's time, when a judgement has ended.
    """

    _alerts: AlertStorePort
    _nodes: NodeStorePort
    _policy: AlertPolicy
    _now: Callable[[], datetime]
    _looked_at: datetime | None = attrs.field(init=False, default=None)
    _judged_at: datetime | None = attrs.field(init=False, default=None)
    _watched_since: datetime | None = attrs.field(init=False, default=None)

    def look(self, now: datetime) -> None:
        """Judge, if a minute has passed; to be called more often than `LONGEST_GAP`."""
        last, self._looked_at = self._looked_at, now
        if last is None or not timedelta(0) <= now - last <= LONGEST_GAP:
            self._watched_since = now
        if not has_passed(EVERY, self._judged_at, now):
            return
        if self._alerts.begin(now=now, every=EVERY):
            held = [*self._held(now)]
            say_changes(self._alerts.keep(held, now=now, ended_at=self._now()))
        self._judged_at = now

    def _held(self, now: datetime) -> Iterator[Alert]:
        signs = self._alerts.signs(now=now, retries=self._policy.retries)
        yield from judge(signs, self._policy, now)
        reports, since = self._nodes.nodes(now=now, limit=MOST_REPORTS).reports, self._watched_since
        at_work = served(reports, now, watched_since=since)
        waiting = self._alerts.system_signs(now=now, served=at_work)
        yield from judge_system(attrs.evolve(waiting, nodes=reports, watched_since=since), now)


@attrs.define(kw_only=True, eq=False)
class AlertWatch:
    """Looks after alerts, as the announcer does after events; *judge* is this one's own."""

    _alerts: AlertStorePort
    _events: EventStorePort
    _judge: LedgerJudge
    _now: Callable[[], datetime]
    _watched: Mapping[int, AlertConditions] = attrs.field(init=False, factory=dict)
    _tasks: Mapping[int, str] = attrs.field(init=False, factory=dict)  # of schedules of no file
    _watched_of: Subscriptions | None = attrs.field(init=False, default=None)
    _watched_at: datetime | None = attrs.field(init=False, default=None)
    _asked_at: datetime | None = attrs.field(init=False, default=None)
    _judged_at: datetime | None = attrs.field(init=False, default=None)
    _told_at: datetime | None = attrs.field(init=False, default=None)
    _told_of: Hashable = attrs.field(init=False, default=None)

    def look(self, subscriptions: Subscriptions, now: datetime) -> None:
        """Judge, if a minute has passed; tell the targets of what holds and is over, each once.

        What another has judged is told at the next look: it may note it just after ours has begun.
        """
        if subscriptions.alerted:
            self._judge.look(now)
            self._judge_schedules(subscriptions, now)
            self._tell(subscriptions, now)

    def _look_up(self, subscriptions: Subscriptions) -> None:
        watched, source = subscriptions.watched, subscriptions.source or ""
        ids = self._events.schedule_ids(watched, source=source) if watched else {}
        strays = schedules_of_no_file(self._alerts, subscriptions)
        found = [
            *((id_, watched[name]) for id_, name in ids.items()),
            *((id_, subscriptions.settings(*those).conditions) for id_, those in strays.items()),
        ]
        self._watched = dict(found[:MOST_WATCHED])
        self._tasks = {id_: task for id_, (_, task) in strays.items()}

    def _judge_schedules(self, subscriptions: Subscriptions, now: datetime) -> None:
        is_time = has_passed(EVERY, self._judged_at, now)
        if not (is_time and has_passed(ASK_AGAIN_AFTER, self._asked_at, now)):
            return
        self._asked_at, source = now, subscriptions.source or ""
        is_new = subscriptions is not self._watched_of
        if is_new or has_passed(LOOK_UP_EVERY, self._watched_at, now):
            self._look_up(subscriptions)
            self._watched_of, self._watched_at = subscriptions, now
        if not self._alerts.begin(now=now, every=EVERY, source=source):
            return
        watched = self._watched
        began, ids, held = time.monotonic(), [*watched], list[Alert]()
        for at in range(0, len(ids), AT_ONCE):
            page = ids[at : at + AT_ONCE]
            usual = {id_ for id_ in page if watched[id_].longer_than_usual}
            for signs in self._alerts.schedule_signs(page, usual=usual, now=now):
                held += judge_schedule(signs, watched[signs.scheduler_id], now, source=source)
            self._judge.look(self._now())  # very many take longer than its `LONGEST_GAP`
        if (took := time.monotonic() - began) > EVERY.total_seconds():
            text = (
                f"Judging {len(watched):,} schedules of {source} took {took:.0f} s: their alerts "
                "come late. The ledger is slow, or fewer schedules should ask for them"
            )
            say(log, logging.WARNING, "alert.slow", text)
        say_changes(self._alerts.keep(held, now=now, ended_at=self._now(), source=source))
        self._judged_at = now

    def _tell(self, subscriptions: Subscriptions, now: datetime) -> None:
        """Tell what has changed, and once a minute all: a target may be new, or hear again."""
        revision = self._alerts.revision()
        if revision == self._told_of and not has_passed(EVERY, self._told_at, now):
            return
        rows = [*self._rows(subscriptions, now)]
        for at in range(0, len(rows), _AT_ONCE):  # each a transaction, which others wait for
            self._events.add(rows[at : at + _AT_ONCE], now=now)
        if rows:
            self._events.tell_anew(rows, before=now - TOLD_ANEW_AFTER, now=now)
        self._told_of, self._told_at = revision, now

    def _rows(self, subscriptions: Subscriptions, now: datetime) -> Iterator[OutboxRow]:
        """Give what is told: of what is over only to those who were told that it held."""
        source = subscriptions.source or ""
        found, _ = self._alerts.page(AlertFilter(cleared=True), after=None, limit=None)
        over = [alert for alert in found if alert.cleared_at is not None]
        for alert in found[: len(found) - len(over)]:
            for name in self._recipients(EventKind.ALERT, alert, subscriptions):
                row = OutboxRow.of(raised(alert, source=source), name, source=source, now=now)
                # To a target that is asked for the first time it is news, however long it has held.
                yield attrs.evolve(row, occurred_at=now)
        keys = [raised(each, source=source).id for each in over]
        rows = self._events.deliveries(keys)
        told = {(row.event_key, row.target) for row in rows if row.state == OutboxState.DELIVERED}
        for alert, key in zip(over, keys, strict=True):
            for name in self._recipients(EventKind.CLEARED, alert, subscriptions):
                if (key, name) in told:
                    yield OutboxRow.of(cleared(alert, source=source), name, source=source, now=now)

    def _recipients(
        self, kind: EventKind, alert: Alert, subscriptions: Subscriptions
    ) -> Sequence[str]:
        if alert.source not in {None, subscriptions.source or ""}:
            return ()  # another file's: its processes tell its targets
        task = self._tasks.get(alert.scheduler_id)
        told = subscriptions.told_of_alert(kind, alert.rule, alert.told_as_of, task)
        return [target.name for target in told]


def schedules_of_no_file(
    alerts: AlertStorePort, subscriptions: Subscriptions
) -> Mapping[int, tuple[str, str]]:
    refs = subscriptions.watched_tasks
    found = alerts.of_no_file(refs, limit=MOST_WATCHED) if refs else {}
    return {id_: (name, refs[ref]) for id_, (name, ref) in found.items()}


def say_changes(changes: AlertChanges) -> None:
    for alert in changes.raised:
        say(log, logging.WARNING, "alert.raised", alert.message, rule=alert.rule)
    for alert in changes.cleared:
        about = f" of {alert.subject}" if alert.subject else ""
        text = f"The alert {alert.rule}{about} is over"
        say(log, logging.INFO, "alert.cleared", text, rule=alert.rule)
