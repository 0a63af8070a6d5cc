"""Alerts: judged once a minute by one process of all, and told by each to its own targets.

Nothing is asked where no target wants alerts.
"""

import logging
from datetime import datetime, timedelta

import attrs

from cronhare.domain.lifecycle.alerts import EVERY, AlertPolicy, judge, raised
from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.schedules.notify import Subscriptions
from cronhare.ports.alerts import AlertStorePort
from cronhare.ports.events import EventStorePort

from ..logs import say
from .adding import Adder

log = logging.getLogger(__name__)


class AlertWatch:
    """Looks after alerts, as the announcer does after events."""

    def __init__(
        self, *, alerts: AlertStorePort, events: EventStorePort, policy: AlertPolicy
    ) -> None:
        """*policy* is best the same on all nodes: any of them may be the one that judges."""
        self._alerts = alerts
        self._adder = Adder(events)
        self._policy = policy
        self._looked_at: datetime | None = None

    def look(self, subscriptions: Subscriptions, now: datetime) -> None:
        """Look, if a minute has passed; tell the targets of what holds, each once."""
        targets = subscriptions.alerted
        last = self._looked_at
        if not targets or (last is not None and timedelta(0) <= now - last < EVERY):
            return
        if self._alerts.begin(now=now, every=EVERY):
            self._judge(now)
        source = subscriptions.source or ""
        rows = [
            OutboxRow.of(raised(alert, source=source), target.name, source=source, now=now)
            for alert in self._alerts.raised()
            for target in targets
        ]
        self._adder.begin()
        # To a target that is asked for the first time it is news, however long it has held.
        self._adder.add([attrs.evolve(row, occurred_at=now) for row in rows])
        self._looked_at = now

    def _judge(self, now: datetime) -> None:
        signs = self._alerts.signs(now=now, retries=self._policy.retries)
        held = list(judge(signs, self._policy))
        changes = self._alerts.keep(held, now=now)
        for alert in held:
            if alert.rule.value in changes.raised:
                say(log, logging.WARNING, "alert.raised", alert.message, rule=alert.rule.value)
        for rule in changes.cleared:
            text = f"The alert {rule} is over"
            say(log, logging.INFO, "alert.cleared", text, rule=rule)
