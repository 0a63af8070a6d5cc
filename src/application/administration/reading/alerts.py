"""What people read of alerts, and of the outbox."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

import attrs

from cronhare.domain.events.alerts import Alert, nobody_judged
from cronhare.domain.events.outbox import OutboxRow, OutboxState
from cronhare.domain.events.targets import EventKind, Subscribers, Subscriptions, Target
from cronhare.domain.texts.moments import say_moment
from cronhare.ports.events import AlertFilter, AlertPlace, AlertStorePort, EventStorePort

from ...events.alerting import schedules_of_no_file
from ..names import Names
from ..views.alerts import AlertPage, AlertView, EventView, ToldView, is_untried


@attrs.frozen(kw_only=True)
class AlertDesk:
    """Answers questions, and changes nothing; may raise `LedgerUnavailable` and `NotFound`.

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
