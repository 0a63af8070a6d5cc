"""Alerts and events: what holds, since when, and who was told."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Self

import attrs

from cronhare.domain.events.alerts import Alert
from cronhare.domain.events.outbox import UNTOLD, OutboxRow, OutboxState, say_next_try
from cronhare.domain.events.rules import Rule
from cronhare.domain.texts.moments import say_duration
from cronhare.domain.texts.words import counted

from .values import json_value, same

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
    """Tell whether a target is to be told, and nobody has tried yet."""
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
