"""Alerts: what a person is to look at, how long it holds, and what is read of it (S0.9, S2.7, C30).

They are judged once a minute, by a few numbers; nothing is counted where an execution ends. The ids
are lines of docs/compatibility.md.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

import attrs

from ..nodes import was_ahead
from .events import Event
from .rules import ABOUT, AlertSeverity, Rule
from .targets import EventKind

#: How often the signs are looked at, by one process of all.
EVERY: Final = timedelta(minutes=1)

#: An alert is over once what it is about has not held for so long: no number flickers at its edge.
CLEAR_AFTER: Final = timedelta(minutes=5)

#: After so long without a judgement nobody judged: the ledger was away, or all judges were, or they
#: failed before they had kept anything.
UNJUDGED_AFTER: Final = 2 * EVERY

#: Who began so many times later than he may at the earliest is waited for no more.
JUDGED_WITHIN: Final = 2

#: What is over is remembered for so long: whoever tells of it may have been away.
CLEARED_KEPT: Final = timedelta(days=1)

#: A target that was given up is told anew of what holds after so long: it may hear again, and an
#: alert may hold for days.
TOLD_ANEW_AFTER: Final = timedelta(hours=1)


@attrs.frozen(kw_only=True)
class Alert:
    """Something that holds since *raised_at*, or did until *cleared_at*; see `key_of`.

    *subject* is what it is about where there may be several: a queue, a node, a schedule. That of a
    schedule has the *source* of the file that asks for it, whose processes alone judge it. It held
    last at *held_at*, with that *data*: what was told of it is in its event.
    """

    key: str
    raised_at: datetime
    data: Mapping[str, Any] = attrs.field(repr=False)
    subject: str = ""
    source: str | None = None
    scheduler_id: int = 0
    held_at: datetime | None = None
    cleared_at: datetime | None = None

    @property
    def event_key(self) -> str:
        """How the keys of its events begin, but for their kinds; the source that tells follows."""
        return f"{self.key}:{round(self.raised_at.timestamp() * 1_000)}:"

    @property
    def rule(self) -> str:
        return self.key.partition(":")[0]

    @property
    def schedule(self) -> str | None:
        return self.subject if self.scheduler_id else None

    @property
    def told_as_of(self) -> str | None:
        """The schedule whose targets are told; None where it is judged of the whole ledger."""
        return None if self.rule == Rule.RETRIES else self.schedule

    @property
    def message(self) -> str:
        return str(self.data.get("alert", {}).get("message", ""))

    @property
    def severity(self) -> AlertSeverity:
        return ABOUT[self.rule].severity

    @property
    def title(self) -> str:
        return str(self._growing.get("title", ABOUT[self.rule].title))

    @property
    def runbook(self) -> str:
        return str(self._growing.get("runbook") or ABOUT[self.rule].runbook)

    @property
    def _growing(self) -> Mapping[str, Any]:
        growing: Mapping[str, Any] = self.data.get("deadLetterQueue", {})
        return growing


def key_of(rule: str, subject: str, source: str | None) -> str:
    """Name an alert in 32 characters at most: what it is about may be longer, and so is its hash.

    >>> key_of("failed", "", None), len(key_of("not-finished", "nightly", "jobs.toml"))
    ('failed', 27)
    """
    if not subject:
        return rule
    about = sha256(f"{source or ''}\0{subject}".encode(errors="replace")).hexdigest()
    return f"{rule}:{about[:14]}"


def nobody_judged(ended_at: datetime | None, now: datetime) -> bool:
    """Tell whether nobody ended judging for longer than one judge takes to follow another."""
    return ended_at is None or ended_at < now - UNJUDGED_AFTER


def is_superseded(ended: datetime, began_at: datetime, now: datetime) -> bool:
    """Tell whether who began to judge at *now* was overtaken: what it saw is the older.

    *ended* is when the last one began that has ended, and *began_at* when anyone did last: one that
    has not ended may never do so. A later *ended* than that is of a clock that was ahead.
    """
    return now < ended <= began_at


def is_over(alert: Alert, now: datetime, source: str | None) -> bool:
    """Tell whether one that a judge of *source* did not find has not held for long enough.

    A clock may have been ahead when it did. Another source's is over once nobody judges it.
    """
    held_at = alert.held_at or alert.raised_at
    if alert.source != source:
        return held_at < now - CLEARED_KEPT
    return held_at < now - CLEAR_AFTER or was_ahead(held_at, now)


def is_forgotten(alert: Alert, now: datetime) -> bool:
    at = alert.cleared_at
    return at is not None and (at < now - CLEARED_KEPT or was_ahead(at, now))


def raised(alert: Alert, *, source: str) -> Event:
    return _event(EventKind.ALERT, alert, source, at=alert.raised_at, data=alert.data)


def cleared(alert: Alert, *, source: str) -> Event:
    message = f"No more: {alert.message}" if alert.message else f"The alert {alert.rule} is over"
    data = {
        **alert.data,
        "raisedAt": alert.raised_at,
        "clearedAt": alert.cleared_at,
        "alert": {"severity": "info", "message": message, "task": None},
    }
    at = alert.cleared_at or alert.raised_at
    return _event(EventKind.CLEARED, alert, source, at=at, data=data)


def _event(
    kind: EventKind, alert: Alert, source: str, *, at: datetime, data: Mapping[str, Any]
) -> Event:
    of = sha256(source.encode()).hexdigest()[:12]  # two files may have targets of one name
    return Event(
        id=f"{kind}:{alert.event_key}{of}",
        kind=kind,
        schedule=alert.schedule or "",
        scheduler_id=alert.scheduler_id,
        at=at,
        data=data,
    )
