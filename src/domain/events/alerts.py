"""Alerts: what of the whole ledger a person is to look at (S0.9, S2.7, C30).

They are judged once a minute, by a few numbers; nothing is counted where an execution ends. The ids
are lines of docs/compatibility.md.
"""

import enum
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final, Self

import attrs

from ..execution import Execution
from ..nodes import was_ahead
from ..texts.moments import say_duration, say_moment
from ..texts.printable import shortened
from ..texts.words import counted
from .events import LONGEST_NAME, Event, describe_task
from .rules import LONGEST_RUNBOOK, RUNBOOK, AlertPolicy, Rule
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


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE: Final = re.compile(r"(held|over)-(-[0-9]{1,16}|[0-9]{1,17})-(.{1,255})")


@attrs.frozen(kw_only=True)
class AlertFilter:
    """Which alerts: None is whichever. Those that are *cleared* are listed after what holds."""

    rule: str | None = None
    severity: str | None = None
    schedule: str | None = None
    cleared: bool = False

    @property
    def rules(self) -> frozenset[str]:
        """The rules of which these are: how bad an alert is comes from its rule."""
        return frozenset(
            rule
            for rule, severity in SEVERITY_OF.items()
            if self.rule in {None, rule} and self.severity in {None, severity}
        )


@attrs.frozen(order=True)
class AlertPlace:
    """Where an alert stands in the list: what holds, then what is *over*; the newest first."""

    over: bool
    before: int
    key: str

    @classmethod
    def of(cls, alert: RaisedAlert) -> Self:
        """Give the place of an alert."""
        at = alert.cleared_at or alert.raised_at
        micros = (at - _EPOCH) // timedelta(microseconds=1)
        return cls(alert.cleared_at is not None, -micros, alert.key)

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Read a place as it is written; None if it is none.

        >>> str(AlertPlace.read("held-1772452800000000-queue:1f0c")), AlertPlace.read("7")
        ('held-1772452800000000-queue:1f0c', None)
        """
        if (found := _PLACE.fullmatch(text)) is None:
            return None
        return cls(found[1] == "over", -int(found[2]), found[3])

    @property
    def at(self) -> datetime:
        """When an alert here was raised, or what is over was cleared."""
        return _EPOCH - timedelta(microseconds=self.before)

    def __str__(self) -> str:
        return f"{'over' if self.over else 'held'}-{-self.before}-{self.key}"


#: What each is called in a list. What is told of a growing queue has the original's title.
TITLES: Final[Mapping[str, str]] = {
    Rule.FAILED: "Failures wait for somebody",
    Rule.GROWING: "Many failures wait for somebody",
    Rule.CRITICAL: "Very many failures wait for somebody",
    Rule.RETRIES: "An execution is retried again and again",
    Rule.RETRY_RATE: "Many runs are retried",
    Rule.SCHEDULER: "No scheduler claims what is due",
    Rule.UNSENT: "Runs cannot be handed to the broker",
    Rule.QUEUE: "No worker serves a queue",
    Rule.NODE: "A node is silent",
    Rule.NOT_STARTED: "Not begun in time",
    Rule.NOT_FINISHED: "Not ended in time",
    Rule.TOO_LONG: "It takes longer than usual",
    Rule.TOO_SHORT: "It wrote less than it is to",
}

_WAITING: Final = "docs/operators.md: Why is it stuck?"
_WORKERS: Final = "docs/operators.md: Who works on it?"

#: The runbook of each, where what was told names none.
RUNBOOKS: Final[Mapping[str, str]] = {
    Rule.FAILED: RUNBOOK,
    Rule.GROWING: RUNBOOK,
    Rule.CRITICAL: RUNBOOK,
    Rule.RETRIES: _WAITING,
    Rule.RETRY_RATE: RUNBOOK,
    Rule.SCHEDULER: _WORKERS,
    Rule.UNSENT: _WAITING,
    Rule.QUEUE: _WORKERS,
    Rule.NODE: _WORKERS,
    Rule.NOT_STARTED: "docs/operators.md: Why did it not run?",
    Rule.NOT_FINISHED: _WAITING,
    Rule.TOO_LONG: _WAITING,
    Rule.TOO_SHORT: "docs/alerts.md: Of one schedule",
}

#: Whose numbers are seconds.
_SECONDS: Final = frozenset(
    {Rule.SCHEDULER, Rule.NODE, Rule.NOT_STARTED, Rule.NOT_FINISHED, Rule.TOO_LONG}
)


@attrs.frozen(kw_only=True)
class AlertText:
    """What was told of an alert, part by part."""

    severity: str
    title: str
    value: float | None
    threshold: float | None
    runbook: str | None

    @classmethod
    def of(cls, alert: RaisedAlert) -> Self:
        """Read what was told, and add what is the same of each alert by that rule."""
        data, rule = alert.data, alert.rule
        said = {**data.get("alert", {}), **data.get("deadLetterQueue", {})}
        runbook = str(said.get("runbook") or RUNBOOKS.get(rule, ""))
        return cls(
            severity=SEVERITY_OF.get(rule, AlertSeverity.HIGH),
            title=shortened(str(said.get("title") or TITLES.get(rule, rule)), LONGEST_NAME),
            value=data.get("value"),
            threshold=data.get("threshold"),
            runbook=shortened(runbook, LONGEST_RUNBOOK) or None,
        )


def say_unjudged(judged_at: datetime | None, now: datetime) -> str | None:
    """Say that nobody judges the ledger, if so: that nothing is listed says nothing then.

    >>> now = datetime(2026, 3, 2, 12, 0)
    >>> say_unjudged(now - timedelta(minutes=1), now), say_unjudged(None, now)[:35]
    (None, 'Nobody has judged the ledger so far')
    """
    if not nobody_judged(judged_at, now):
        return None
    since = "so far" if judged_at is None else f"since {say_moment(judged_at)}"
    return (
        f"Nobody has judged the ledger {since}: what is wrong now may not be listed. "
        "Start `cronhare scheduler` or `cronhare up`"
    )


def say_measured(rule: str, number: float) -> str:
    """Say a number of an alert, which is a time, a rate, or counts something.

    >>> say_measured("failed", 1_200), say_measured("retry-rate", 0.25), say_measured("node", 90)
    ('1,200', '25.0%', '1m30s')
    """
    if rule == Rule.RETRY_RATE:
        return f"{number:.1%}"
    if rule in _SECONDS:
        return say_duration(timedelta(seconds=round(number)))
    return f"{number:,g}" if number != int(number) else f"{int(number):,}"
