"""Alerts: what holds, since when, and who was told."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

import attrs

from cronhare.domain.lifecycle.alerts import RaisedAlert
from cronhare.domain.lifecycle.events import OutboxRow


@attrs.frozen(kw_only=True)
class ToldView:
    """A target of an alert; *state* is a `OutboxState`."""

    target: str
    state: str
    last_error: str | None


@attrs.frozen(kw_only=True)
class AlertView:
    """One alert. *subject* is what it is about: a schedule, a queue, a node; empty for the ledger.

    *message*, *value* and *data* are as they were when it was raised; *held_at* is when it was
    found to hold last. *told* is empty where no target asks for it.
    """

    key: str
    rule: str
    severity: str
    subject: str
    schedule_name: str | None
    scheduler_id: int | None
    source: str | None
    message: str
    raised_at: datetime
    held_at: datetime | None
    cleared_at: datetime | None
    told: tuple[ToldView, ...]
    data: Any

    @classmethod
    def of(cls, alert: RaisedAlert, rows: Sequence[OutboxRow]) -> Self:
        """Show an alert, with its rows of the outbox."""
        said = alert.data.get("deadLetterQueue") or alert.data.get("alert")
        severity = said.get("severity") if isinstance(said, Mapping) else None
        return cls(
            key=alert.key,
            rule=alert.rule,
            severity=str(severity or "high"),
            subject=alert.subject,
            schedule_name=alert.subject if alert.scheduler_id else None,
            scheduler_id=alert.scheduler_id or None,
            source=alert.source,
            message=alert.message,
            raised_at=alert.raised_at,
            held_at=alert.held_at,
            cleared_at=alert.cleared_at,
            told=tuple(
                ToldView(target=row.target, state=row.state, last_error=row.last_error)
                for row in rows
            ),
            data=dict(alert.data),
        )
