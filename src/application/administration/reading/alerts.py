"""Alerts and events as people read them: what holds, since when, and who was told."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final, Self

import attrs

from cronhare.domain.events.alerts import Alert, nobody_judged
from cronhare.domain.events.outbox import UNTOLD, OutboxRow, OutboxState, say_next_try
from cronhare.domain.events.rules import Rule
from cronhare.domain.events.targets import EventKind, Subscribers, Subscriptions, Target
from cronhare.domain.texts.moments import say_duration, say_moment
from cronhare.domain.texts.words import counted
from cronhare.ports.events import AlertFilter, AlertPlace, AlertStorePort, EventStorePort

from ...events.alerting import schedules_of_no_file
from ..views.values import json_value, same
from .lookup import Names

#: Whose numbers are seconds.
_SECONDS: Final = frozenset(
    {Rule.SCHEDULER, Rule.NODE, Rule.NOT_STARTED, Rule.NOT_FINISHED, Rule.TOO_LONG}
)


@attrs.frozen(kw_only=True)
class ToldView:
    """A target of an alert; *state* is a `OutboxState`, and *why* says it was not told so far.

    *source* names the jobs file that has the target.
    """

    target: str
    source: str
    state: str
    told_at: datetime | None
    why: str | None
    last_error: str | None

    @property
    def is_given_up(self) -> bool:
        return self.state in UNTOLD

    @classmethod
    def of(cls, row: OutboxRow, failing: OutboxRow | None, now: datetime) -> Self:
        """Show a row of the outbox; it may wait behind what its target is *failing* with."""
        is_told = row.state == OutboxState.DELIVERED
        new = {
            "told_at": row.finished_at if is_told else None,
            "why": None if is_told else _why_not(row, failing, now),
        }
        return cls(**same(cls, row) | new)


@attrs.frozen(kw_only=True)
class UntoldView:
    """A target of this process's jobs file that nobody has begun to tell, and *why*."""

    target: str
    why: str


@attrs.frozen(kw_only=True)
class AlertView:
    """One alert. *subject* is what it is about: a schedule, a queue, a node; empty for the ledger.

    *message*, *value*, *threshold* and *data* are as they were when it was found to hold last, at
    *held_at*; what was told of it is in its event. *told* is empty where no target asks for it;
    *untold* are those targets of the jobs file, where the process has one, that are not among
    these.
    """

    key: str
    rule: str
    severity: str
    title: str
    subject: str
    schedule_name: str | None
    scheduler_id: int | None
    source: str | None
    message: str
    value: float | None
    threshold: float | None
    runbook: str | None
    raised_at: datetime
    held_at: datetime | None
    cleared_at: datetime | None
    told: tuple[ToldView, ...]
    untold: tuple[UntoldView, ...]
    data: Any

    @classmethod
    def of(cls, alert: Alert, told: Sequence[ToldView], untold: Mapping[str, str]) -> Self:
        new = {
            "schedule_name": alert.schedule,
            "scheduler_id": alert.scheduler_id or None,
            "value": alert.data.get("value"),
            "threshold": alert.data.get("threshold"),
            "told": tuple(told),
            "untold": tuple(UntoldView(target=name, why=why) for name, why in untold.items()),
        }
        return cls(**same(cls, alert) | new)

    def measured(self, number: float) -> str:
        """Say a number of it, which is a time, a rate, or counts something."""
        if self.rule == Rule.RETRY_RATE:
            return f"{number:.1%}"
        if self.rule in _SECONDS:
            return say_duration(timedelta(seconds=round(number)))
        return f"{number:,g}" if number != int(number) else f"{int(number):,}"


@attrs.frozen(kw_only=True)
class AlertPage:
    """Some alerts; the next page is of those *after* a place, None for the last page.

    The whole ledger was judged last at *judged_at*; *unjudged* says so where that is too long ago.
    """

    alerts: Sequence[AlertView]
    after: str | None
    judged_at: datetime | None
    unjudged: str | None


def is_untried(row: OutboxRow) -> bool:
    return row.state == OutboxState.WAITING and not row.tries


def _why_not(row: OutboxRow, failing: OutboxRow | None, now: datetime) -> str:
    if is_untried(row):
        if failing is None:
            return "no process that tells has come to it yet"
        return f"{row.target} fails with an earlier event: {_tried(failing, now)}"
    match row.state:
        case OutboxState.GIVEN_UP:
            return f"given up, {_tried(row)}"
        case OutboxState.EXPIRED:
            return f"not in time, {_tried(row)}"
    return _tried(row, now)


def _tried(row: OutboxRow, now: datetime | None = None) -> str:
    """Say how often in vain; and at *now* when it is tried again."""
    error = f": {row.last_error}" if row.last_error else ""
    tried = f"tried {counted(row.tries, 'time')}{error}"
    if now is None or row.next_try_at is None:
        return tried
    return f"{tried}; {say_next_try(row.next_try_at, now)}"


@attrs.frozen(kw_only=True)
class EventView:
    """One event for one target; *state* is a `OutboxState`.

    *tries* counts those that have begun; *last_error* is of the last one. *document* is what the
    target gets; None while a recovery is only expected.
    """

    id: int
    event_id: str
    event: str
    schedule_name: str
    scheduler_id: int
    execution_id: int | None
    target: str
    source: str
    state: str
    tries: int
    occurred_at: datetime
    next_try_at: datetime | None
    finished_at: datetime | None
    last_error: str | None
    document: Any
    problem: None = None  # of ledgers in which rows could be broken

    @classmethod
    def of(cls, row: OutboxRow) -> Self:
        document = json_value(row.payload) if row.payload else None
        return cls(**same(cls, row), event_id=row.event_key, document=document)


@attrs.frozen(kw_only=True)
class AlertDesk:
    """Answers questions, and changes nothing.

    *now* is the ledger's clock, *subscribers* are those of this process's jobs file.
    """

    _alerts: AlertStorePort
    _events: EventStorePort
    _subscribers: Subscribers
    _now: Callable[[], datetime]
    _names: Names

    def alerts(
        self,
        which: AlertFilter = AlertFilter(),  # noqa: B008 - a frozen value
        *,
        after: AlertPlace | None = None,
        limit: int | None = None,
    ) -> AlertPage:
        """List what holds now, the newest first, and who was told; then what was over of late.

        Each scheduler judges those of the whole ledger. Those of a schedule need a process with its
        file: where none runs, what held last is listed, and `held_at` says when that was.
        """
        found, goes_on = self._alerts.page(which, after=after, limit=limit)
        if not found and which.schedule is not None:
            self._expect(which.schedule)
        following = str(AlertPlace.of(found[-1])) if goes_on else None
        return self._page([*self._shown(found)], after=following)

    def events(
        self, *, states: Collection[OutboxState], schedule: str | None, limit: int
    ) -> Sequence[EventView]:
        """List events and their targets, newest first; those in any of *states*, if some are."""
        found = self._events.rows(states=states, schedule=schedule, limit=limit)
        if not found:
            self._names.expect_schedule(schedule)
        return [EventView.of(row) for row in found]

    def none(self) -> AlertPage:
        """Give a page without alerts, for what there is not: it says when the ledger was judged."""
        return self._page((), after=None)

    def _page(self, shown: Sequence[AlertView], *, after: str | None) -> AlertPage:
        judged_at = self._alerts.judged_at()
        unjudged = None
        if nobody_judged(judged_at, self._now()):
            since = "so far" if judged_at is None else f"since {say_moment(judged_at)}"
            unjudged = (
                f"Nobody has judged the ledger {since}: what is wrong now may not be listed. "
                "Start `cronhare scheduler` or `cronhare up`"
            )
        return AlertPage(alerts=shown, after=after, judged_at=judged_at, unjudged=unjudged)

    def _expect(self, schedule: str) -> None:
        any_of_it = AlertFilter(schedule=schedule, cleared=True)
        found, _ = self._alerts.page(any_of_it, after=None, limit=1)
        if not found:
            self._names.expect_schedule(schedule)

    def _told(self, found: Sequence[Alert]) -> Mapping[str, Sequence[OutboxRow]]:
        told = defaultdict[str, list[OutboxRow]](list)
        begins = f"{EventKind.ALERT}:"
        for row in self._events.deliveries([f"{begins}{alert.event_key}" for alert in found]):
            told[f"{row.event_key.removeprefix(begins).rpartition(':')[0]}:"].append(row)
        return told

    def _shown(self, found: Sequence[Alert]) -> Iterator[AlertView]:
        told, ours = self._told(found), self._subscribers.current
        source, tasks = ours.source or "", self._tasks_of_no_file(found, ours)
        failing, now = self._failing(chain.from_iterable(told.values())), self._now()
        for alert in found:
            rows, task = told.get(alert.event_key, ()), tasks.get(alert.scheduler_id)
            is_ours = alert.source in {None, source}
            why = why_untold(ours, alert.rule, alert.told_as_of, task) if is_ours else {}
            known = {row.target for row in rows if row.source == source}
            yield AlertView.of(
                alert,
                [ToldView.of(row, failing.get((row.target, row.source)), now) for row in rows],
                {name: why[name] for name in why if name not in known},
            )

    def _failing(self, rows: Iterable[OutboxRow]) -> Mapping[tuple[str, str], OutboxRow]:
        """Find what targets fail with that have not been tried: the alert waits behind it."""
        untried = {(row.target, row.source) for row in rows if is_untried(row)}
        found = {(name, file): self._events.failing(name, source=file) for name, file in untried}
        return {place: row for place, row in found.items() if row is not None}

    def _tasks_of_no_file(self, found: Iterable[Alert], ours: Subscriptions) -> Mapping[int, str]:
        """Name the tasks of schedules of no file, if some of the alerts may be of such."""
        elsewhere = {None, *ours.schedules}
        if elsewhere.issuperset(each.told_as_of for each in found):
            return {}
        return {id_: task for id_, (_, task) in schedules_of_no_file(self._alerts, ours).items()}


def why_untold(
    subscriptions: Subscriptions, rule: str, schedule: str | None, task: str | None
) -> Mapping[str, str]:
    """Say of each target of a file why it was not told of an alert, if it was not.

    An alert of no *schedule* is of the whole ledger; *task* names that of a schedule of no file.
    """
    told = subscriptions.told_of_alert(EventKind.ALERT, rule, schedule, task)

    def why(target: Target) -> str:
        if EventKind.ALERT not in target.events:
            return f"its events have no {EventKind.ALERT}"
        if rule not in target.alerts:
            return f"its alerts leave out {rule}"
        if target not in told:
            return f"{schedule}, or its task, names others in its notify"
        return "no process that tells has found the alert yet: a worker looks once a minute"

    return {name: why(target) for name, target in subscriptions.targets.items()}
