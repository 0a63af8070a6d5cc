"""What people read of an alert beside its message: a title, its numbers, and where to read on."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Self

import attrs

from ..schedules.alert_rules import Rule
from ..texts.moments import say_duration, say_moment
from ..texts.printable import shortened
from .alert_policy import LONGEST_RUNBOOK, RUNBOOK
from .alerts import SEVERITY_OF, AlertSeverity, RaisedAlert, nobody_judged
from .events import LONGEST_NAME

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
