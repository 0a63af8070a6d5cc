"""Alerts: what holds, since when, and who was told."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

import attrs

from cronhare.domain.lifecycle.alert_texts import AlertText
from cronhare.domain.lifecycle.alerts import RaisedAlert
from cronhare.domain.lifecycle.events import OutboxRow, OutboxState
from cronhare.domain.texts.listing import counted


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
        """Whether it will not be told any more."""
        return self.state in {OutboxState.GIVEN_UP, OutboxState.EXPIRED}

    @classmethod
    def of(cls, row: OutboxRow) -> Self:
        """Show a row of the outbox."""
        is_told = row.state == OutboxState.DELIVERED
        return cls(
            target=row.target,
            source=row.source,
            state=row.state,
            told_at=row.finished_at if is_told else None,
            why=None if is_told else _why_not(row),
            last_error=row.last_error,
        )


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
    def of(cls, alert: RaisedAlert, rows: Sequence[OutboxRow], untold: Mapping[str, str]) -> Self:
        """Show an alert, with its rows of the outbox, and why others have none."""
        return cls(
            key=alert.key,
            rule=alert.rule,
            subject=alert.subject,
            schedule_name=alert.schedule,
            scheduler_id=alert.scheduler_id or None,
            source=alert.source,
            message=alert.message,
            raised_at=alert.raised_at,
            held_at=alert.held_at,
            cleared_at=alert.cleared_at,
            told=tuple(map(ToldView.of, rows)),
            untold=tuple(UntoldView(target=name, why=why) for name, why in untold.items()),
            data=dict(alert.data),
            **attrs.asdict(AlertText.of(alert)),
        )


@attrs.frozen(kw_only=True)
class AlertPage:
    """Some alerts; the next page is of those *after* a place, None for the last page.

    The whole ledger was judged last at *judged_at*; *unjudged* says so where that is too long ago.
    """

    alerts: Sequence[AlertView]
    after: str | None
    judged_at: datetime | None
    unjudged: str | None


def _why_not(row: OutboxRow) -> str:
    error = f": {row.last_error}" if row.last_error else ""
    tried = f"tried {counted(row.tries, 'time')}{error}"
    match row.state:
        case OutboxState.GIVEN_UP:
            return f"given up, {tried}"
        case OutboxState.EXPIRED:
            return f"not in time, {tried}"
    return tried if row.tries else "no process that tells has come to it yet"
