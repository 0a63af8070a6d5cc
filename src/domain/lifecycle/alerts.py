"""Alerts: what of the whole ledger a person is to look at (S0.9, S2.7, C30).

They are judged once a minute, by a few numbers; nothing is counted where an execution ends. The ids
are lines of docs/compatibility.md.
"""

import enum
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

import attrs

from ..execution import Execution
from ..retries.leaps import was_ahead
from ..schedules.alert_rules import Rule
from ..schedules.notify import EventKind
from ..texts.words import counted
from .alert_policy import AlertPolicy
from .events import Event, describe_task

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

#: The newest executions that are looked at, of a day at the most.
NEWEST: Final = 1_000
LOOKS_BACK: Final = timedelta(days=1)

#: Fewer runs have no rate.
FEWEST_RUNS: Final = 10

#: So many unresolved failures are counted: more make no other alert.
MOST_COUNTED: Final = 100_000

#: The original's words (S2.7).
GROWING: Final = "Dead Letter Queue Growing"


class AlertSeverity(enum.StrEnum):
    """How bad an alert is, the worst first: the original's words (S0.9, S2.7)."""

    CRITICAL = "critical"
    HIGH = "high"
    WARNING = "warning"


#: How bad each is.
SEVERITY_OF: Final[Mapping[str, AlertSeverity]] = {
    Rule.FAILED: AlertSeverity.HIGH,
    Rule.GROWING: AlertSeverity.WARNING,
    Rule.CRITICAL: AlertSeverity.CRITICAL,
    Rule.RETRIES: AlertSeverity.HIGH,
    Rule.RETRY_RATE: AlertSeverity.HIGH,
    Rule.SCHEDULER: AlertSeverity.CRITICAL,
    Rule.UNSENT: AlertSeverity.CRITICAL,
    Rule.QUEUE: AlertSeverity.CRITICAL,
    Rule.NODE: AlertSeverity.HIGH,
    Rule.NOT_STARTED: AlertSeverity.HIGH,
    Rule.NOT_FINISHED: AlertSeverity.HIGH,
    Rule.TOO_LONG: AlertSeverity.WARNING,
    Rule.TOO_SHORT: AlertSeverity.WARNING,
}


@attrs.frozen(kw_only=True)
class Signs:
    """What the ledger says: unresolved failures, and of its newest runs how many were retried.

    *worst* is the newest that was retried too often and is not over, or only since `CLEAR_AFTER`;
    there are *too_often* of them.
    """

    unresolved: int = 0
    runs: int = 0
    retried: int = 0
    too_often: int = 0
    worst: Execution | None = None


@attrs.frozen(kw_only=True)
class Alert:
    """Something that holds, with what is told of it.

    *subject* is what it is about where there may be several: a queue, a node, a schedule. That of a
    schedule has the *source* of the file that asks for it, whose processes alone judge it.
    """

    rule: Rule
    message: str
    data: Mapping[str, Any] = attrs.field(repr=False)
    subject: str = ""
    source: str | None = None
    scheduler_id: int = 0

    @property
    def key(self) -> str:
        """What tells it from all others, in 32 characters at most.

        Of what is retried too often there is one alert, about whichever is the worst.
        """
        subject = "" if self.rule == Rule.RETRIES else self.subject
        return key_of(self.rule, subject, self.source)


@attrs.frozen(kw_only=True)
class RaisedAlert:
    """An alert that holds since *raised_at*, or did until *cleared_at*.

    It held last at *held_at*, with that *data*: what was told of it is in its event.
    """

    key: str
    raised_at: datetime
    data: Mapping[str, Any] = attrs.field(repr=False)
    subject: str = ""
    source: str | None = None
    scheduler_id: int = 0
    held_at: datetime | None = None
    cleared_at: datetime | None = None

    @classmethod
    def of(cls, alert: Alert, now: datetime) -> "RaisedAlert":
        """Raise an alert."""
        return cls(
            key=alert.key,
            raised_at=now,
            held_at=now,
            data=alert.data,
            subject=alert.subject,
            source=alert.source,
            scheduler_id=alert.scheduler_id,
        )

    def held(self, alert: Alert, now: datetime) -> "RaisedAlert":
        """Note that it holds still, and how: its numbers are those of now."""
        return attrs.evolve(
            self,
            held_at=now,
            data=alert.data,
            subject=alert.subject,
            scheduler_id=alert.scheduler_id,
        )

    @property
    def event_key(self) -> str:
        """How the keys of its events begin, but for their kinds; the source that tells follows."""
        return f"{self.key}:{round(self.raised_at.timestamp() * 1_000)}:"

    @property
    def rule(self) -> str:
        """The rule by which it was raised."""
        return self.key.partition(":")[0]

    @property
    def schedule(self) -> str | None:
        """The schedule that it is about; None where it is about no single one."""
        return self.subject if self.scheduler_id else None

    @property
    def told_as_of(self) -> str | None:
        """The schedule whose targets are told; None where it is judged of the whole ledger."""
        return None if self.rule == Rule.RETRIES else self.schedule

    @property
    def message(self) -> str:
        """What is said of it."""
        return str(self.data.get("alert", {}).get("message", ""))


def key_of(rule: str, subject: str, source: str | None) -> str:
    """Name an alert: what it is about may be longer than a key, and so is its hash.

    >>> key_of("failed", "", None), len(key_of("not-finished", "nightly", "jobs.toml"))
    ('failed', 27)
    """
    if not subject:
        return rule
    about = sha256(f"{source or ''}\0{subject}".encode(errors="replace")).hexdigest()
    return f"{rule}:{about[:14]}"


def is_over(held_at: datetime, now: datetime) -> bool:
    """Tell whether an alert has not held for long enough; a clock may have been ahead when it did.

    >>> now = datetime(2026, 3, 2, 12, 0)
    >>> [is_over(now + timedelta(minutes=each), now) for each in (-6, -4, 0, 4)]
    [True, False, False, True]
    """
    return held_at < now - CLEAR_AFTER or was_ahead(held_at, now)


def nobody_judged(ended_at: datetime | None, now: datetime) -> bool:
    """Tell whether nobody ended judging for longer than one judge may take to follow another.

    Who began and failed has seen nothing.

    >>> now = datetime(2026, 3, 2, 12, 0)
    >>> [nobody_judged(each, now) for each in (None, now - 3 * EVERY, now - 2 * EVERY)]
    [True, True, False]
    """
    return ended_at is None or ended_at < now - UNJUDGED_AFTER


def counts_as_held(ended_at: datetime | None, began_at: datetime, now: datetime) -> bool:
    """Tell whether what held before counts as held until a judgement began, at *now*.

    It does where nobody judged before: it is over only once somebody has seen it so for long. This
    is asked at the judgement's end: another, under way when it began, may have ended meanwhile.
    *began_at* is when anyone began last; who has not begun tells nothing of what was before.

    >>> now = datetime(2026, 3, 2, 12, 0)
    >>> [counts_as_held(now + each * EVERY, now + EVERY, now) for each in (-3, -2, 1)]
    [True, False, False]
    """
    return nobody_judged(ended_at, now) and began_at >= now


def is_superseded(ended: datetime, began_at: datetime, now: datetime) -> bool:
    """Tell whether who began to judge at *now* was overtaken: what it saw is the older.

    *ended* is when the last one began that has ended, and *began_at* when anyone did last: one that
    has not ended may never do so. A later *ended* than that is of a clock that was ahead.

    >>> now, minute = datetime(2026, 3, 2, 12, 0), timedelta(minutes=1)
    >>> is_superseded(now - minute, now + 3 * minute, now), is_superseded(now, now, now)
    (False, False)
    >>> is_superseded(now + minute, now + 3 * minute, now), is_superseded(now + minute, now, now)
    (True, False)
    """
    return now < ended <= began_at


def is_forgotten(alert: RaisedAlert, now: datetime) -> bool:
    """Tell whether nobody needs to know any more that an alert is over."""
    at = alert.cleared_at
    return at is not None and (at < now - CLEARED_KEPT or was_ahead(at, now))


def judge(signs: Signs, policy: AlertPolicy) -> Iterator[Alert]:
    """Say of what people are to be alerted."""
    depth, limits = signs.unresolved, policy
    if 0 < limits.failed < depth:
        yield alert(Rule.FAILED, f"{depth} failed cron tasks", value=depth, threshold=limits.failed)
    for rule, limit in ((Rule.GROWING, limits.warning), (Rule.CRITICAL, limits.critical)):
        if 0 < limit < depth:
            message = f"DLQ has {depth} jobs (threshold: {limit})"
            growing = _growing(SEVERITY_OF[rule], message, depth, limit, limits.runbook)
            yield alert(rule, message, value=depth, threshold=limit, deadLetterQueue=growing)
    if limits.retries and signs.worst is not None:
        yield _retries(signs, signs.worst, limits.retries)
    if limits.retry_rate and signs.runs >= FEWEST_RUNS:
        rate = signs.retried / signs.runs
        if rate > limits.retry_rate:
            message = (
                f"{signs.retried} of {counted(signs.runs, 'run')} were retried: {rate:.1%} "
                f"(threshold: {limits.retry_rate:.1%})"
            )
            yield alert(Rule.RETRY_RATE, message, value=round(rate, 4), threshold=limits.retry_rate)


def raised(alert: RaisedAlert, *, source: str) -> Event:
    """Describe the event of an alert, for the targets of one jobs file."""
    return _event(EventKind.ALERT, alert, source, at=alert.raised_at, data=alert.data)


def cleared(alert: RaisedAlert, *, source: str) -> Event:
    """Describe the event of an alert that is over: how it held last, and since when."""
    over = {"raisedAt": alert.raised_at, "clearedAt": alert.cleared_at}
    message = f"No more: {alert.message}" if alert.message else f"The alert {alert.rule} is over"
    said = {"severity": "info", "message": message, "task": None}
    data = {**alert.data, **over, "alert": said}
    at = alert.cleared_at or alert.raised_at
    return _event(EventKind.CLEARED, alert, source, at=at, data=data)


def _event(
    kind: EventKind, alert: RaisedAlert, source: str, *, at: datetime, data: Mapping[str, Any]
) -> Event:
    of = sha256(source.encode()).hexdigest()[:12]  # two files may have targets of one name
    return Event(
        id=f"{kind}:{alert.event_key}{of}",
        kind=kind,
        schedule=alert.schedule or "",
        scheduler_id=alert.scheduler_id,
        execution_id=None,
        at=at,
        data=data,
    )


def trial(target: str, *, now: datetime, id_: str) -> Event:
    """Describe an alert that tells a target nothing but that it can be reached."""
    message = f"This is a test of {target}: nothing is wrong"
    said = {"severity": "info", "message": message, "task": None}
    return Event(
        id=f"test:{id_}",
        kind=EventKind.ALERT,
        schedule="",
        scheduler_id=0,
        execution_id=None,
        at=now,
        data={"rule": "test", "value": 0, "threshold": None, "test": True, "alert": said},
    )


def alert(
    rule: Rule,
    message: str,
    *,
    value: float,
    threshold: float | None = None,
    subject: str = "",
    execution: int | None = None,
    task: Mapping[str, Any] | None = None,
    **more: Any,  # noqa: ANN401 - JSON
) -> Alert:
    """Make an alert: its document has the parts that the original's has (S0.9)."""
    said = {"severity": SEVERITY_OF[rule], "message": message, "task": task}
    data: dict[str, Any] = {"rule": rule.value, "value": value, "threshold": threshold, **more}
    if subject:
        data["subject"] = subject
    if execution is not None:
        data["executionId"] = execution
    return Alert(rule=rule, message=message, subject=subject, data={**data, "alert": said})


def _retries(signs: Signs, worst: Execution, limit: int) -> Alert:
    more = signs.too_often - 1
    others = f", and {counted(more, 'other')} likewise" if more > 0 else ""
    message = (
        f"Execution {worst.id} of {worst.schedule_name} was retried {counted(worst.deaths, 'time')}"
        f" (threshold: {limit}){others}"
    )
    found = alert(
        Rule.RETRIES,
        message,
        value=worst.deaths,
        threshold=limit,
        execution=worst.id,
        task=describe_task(worst.task, worst.scheduler_id, worst.params),
    )
    return attrs.evolve(found, subject=worst.schedule_name, scheduler_id=worst.scheduler_id)


def _growing(
    severity: str, message: str, depth: int, threshold: int, runbook: str
) -> dict[str, Any]:
    return {
        "severity": severity,
        "title": GROWING,
        "message": message,
        "depth": depth,
        "threshold": threshold,
        "runbook": runbook,
    }
