"""What people read of alerts."""

from collections import defaultdict
from collections.abc import Sequence

from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.schedules.notify import EventKind
from cronhare.ports.alerts import AlertStorePort
from cronhare.ports.events import EventStorePort

from .views.alerts import AlertView


class AlertDesk:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`."""

    def __init__(self, *, alerts: AlertStorePort, events: EventStorePort) -> None:
        """*alerts* and *events* are the ledger's."""
        self._alerts = alerts
        self._events = events

    def alerts(self, *, cleared: bool = False) -> Sequence[AlertView]:
        """List what holds now, the newest first, and who was told; then what is *cleared* of late.

        Each scheduler judges those of the whole ledger. Those of a schedule need a process with its
        file: where none runs, what held last is listed, and `held_at` says when that was.
        """
        found = [*self._alerts.raised()]
        found.sort(key=lambda alert: alert.raised_at, reverse=True)
        if cleared:
            over = [*self._alerts.cleared()]
            over.sort(key=lambda alert: alert.cleared_at or alert.raised_at, reverse=True)
            found += over
        told = defaultdict[str, list[OutboxRow]](list)
        keys = {f"{EventKind.ALERT}:{alert.event_key}": alert.event_key for alert in found}
        for row in self._events.deliveries(keys):
            told[f"{row.event_key.rpartition(':')[0]}:"].append(row)
        return [
            AlertView.of(alert, told.get(f"{EventKind.ALERT}:{alert.event_key}", ()))
            for alert in found
        ]
