"""What people read of alerts."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from cronhare.domain.lifecycle.alert_list import AlertFilter, AlertPlace
from cronhare.domain.lifecycle.alerts import RaisedAlert
from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.schedules.notify import EventKind
from cronhare.domain.schedules.untold import why_untold
from cronhare.ports.alerts import AlertStorePort
from cronhare.ports.events import EventStorePort

from ..events.subscribers import Subscribers
from .views.alerts import AlertPage, AlertView


class AlertDesk:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`."""

    def __init__(
        self,
        *,
        alerts: AlertStorePort,
        events: EventStorePort,
        subscribers: Subscribers,
    ) -> None:
        """*alerts* and *events* are the ledger's, *subscribers* those of this process's file."""
        self._alerts = alerts
        self._events = events
        self._subscribers = subscribers

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
        most = None if limit is None else limit + 1
        rest = self._alerts.page(which, after=after, limit=most)
        found = rest[:limit]
        told = self._told(found)
        return AlertPage(
            alerts=[self._shown(each, told.get(each.event_key, ())) for each in found],
            after=str(AlertPlace.of(found[-1])) if len(rest) > len(found) else None,
        )

    def _told(self, found: Sequence[RaisedAlert]) -> Mapping[str, Sequence[OutboxRow]]:
        """Find who was told of alerts, by how the keys of their events begin."""
        told = defaultdict[str, list[OutboxRow]](list)
        begins = f"{EventKind.ALERT}:"
        for row in self._events.deliveries([f"{begins}{alert.event_key}" for alert in found]):
            told[f"{row.event_key.removeprefix(begins).rpartition(':')[0]}:"].append(row)
        return told

    def _shown(self, alert: RaisedAlert, rows: Sequence[OutboxRow]) -> AlertView:
        ours = self._subscribers.current
        source, schedule = ours.source or "", alert.subject if alert.scheduler_id else None
        is_ours = alert.source in {None, source}
        known = {row.target for row in rows if row.source == source}
        untold = why_untold(ours, alert.rule, schedule) if is_ours else {}
        return AlertView.of(
            alert, rows, {name: why for name, why in untold.items() if name not in known}
        )
