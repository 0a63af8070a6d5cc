"""Parts of views: statuses, durations as numbers, params as JSON, retries, errors.

The S and C numbers are lines of docs/compatibility.md.
"""

from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, Self

import attrs
import msgspec

from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.outcome import CrashPolicy, TaskError
from cronhare.domain.retries.policy import BackoffType, Jitter, RetryPolicy

#: Levels that params may have around them: 1,000 can be read, and not be written inside of a view.
DEEPEST: Final = 500


@attrs.frozen(kw_only=True)
class CrashView:
    """How many crashes within a window make a poison pill, and whether timeouts are any."""

    limit: int
    window_seconds: float
    timeouts: bool

    @classmethod
    def of(cls, policy: CrashPolicy) -> Self:
        return cls(**same(cls, policy), window_seconds=policy.window.total_seconds())


@attrs.frozen(kw_only=True)
class RetryView:
    """How many attempts there are in all, and the waits between; *delays_seconds* of a list.

    *crashes* is None where the settings say what a poison pill is.
    """

    attempts: int
    backoff: str
    delay_seconds: float
    delays_seconds: tuple[float, ...]
    multiplier: float
    max_delay_seconds: float | None
    jitter: str
    crashes: CrashView | None

    @classmethod
    def of(cls, policy: RetryPolicy) -> Self:
        backoff, longest = policy.backoff, policy.backoff.max_delay
        return cls(
            attempts=policy.attempts,
            backoff=backoff.type.value,
            delay_seconds=backoff.delay / 1000,
            delays_seconds=tuple(delay / 1000 for delay in backoff.sequence),
            multiplier=backoff.multiplier,
            max_delay_seconds=None if longest is None else longest / 1000,
            jitter=backoff.jitter.value,
            crashes=None if policy.crashes is None else CrashView.of(policy.crashes),
        )


#: So many waits are listed; a policy may have nineteen.
MOST_LISTED: Final = 6

_SPREAD: Final = {
    Jitter.NONE: "",
    Jitter.PLUS: "; each up to 10 % longer",
    Jitter.BOTH: "; each up to 10 % shorter or longer",
    Jitter.FULL: "; each anything up to that",
}
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


def retry_facts(policy: RetryPolicy) -> str:
    """Say how often a task runs and how long it waits in between.

    >>> retry_facts(RetryPolicy())
    '4 runs, waits 30 s, 1 min, 2 min, 3 min 30 s in all'
    >>> retry_facts(RetryPolicy(attempts=1))
    '1 run, no retry'
    """
    if not policy.max_retries:
        return "1 run, no retry"
    unspread = attrs.evolve(policy.backoff, jitter=Jitter.NONE)
    waits = [unspread.wait(retry) for retry in range(1, policy.attempts)]
    listed = [say_wait(wait) for wait in islice(waits, MOST_LISTED)]
    if len(waits) > MOST_LISTED:
        listed[-1] = "…"
    if len(waits) > 1:
        listed.append(f"{say_wait(sum(waits, timedelta(0)))} in all")
    return f"{policy.attempts} runs, waits {', '.join(listed)}{_SPREAD[policy.backoff.jitter]}"


def say_wait(wait: timedelta) -> str:
    """Say a wait in words.

    >>> [say_wait(timedelta(seconds=seconds)) for seconds in (0, 22.5, 303.75, 3600)]
    ['0 s', '22.5 s', '5 min 3.75 s', '1 h']
    """
    milliseconds, words = wait // timedelta(milliseconds=1), list[str]()
    for unit, length in _UNITS:
        number, milliseconds = divmod(milliseconds, length)
        if number:
            words.append(f"{number} {unit}")
    if milliseconds or not words:
        words.append(f"{milliseconds / 1000:g} s")
    return " ".join(words)


#: A run that waits for its retry is still `active`, and `failed` is an end (S3.4, S3.5).
_STATUS: Final = {
    State.CLAIMED: "waiting",
    State.HELD: "waiting",
    State.PUBLISHED: "waiting",
    State.RUNNING: "active",
    State.RETRYING: "active",
    State.SUCCEEDED: "completed",
    State.FAILED: "failed",
    State.QUARANTINED: "quarantined",
    State.CANCELLED: "cancelled",
    State.SKIPPED: "skipped",
    State.HANDED_OVER: "handed-over",
}

#: In the lease style `failed` is what is tried again, and the end is `terminated` (S4.1, C37).
_OF_LEASE_STYLE: Final = {State.RETRYING: "failed", State.FAILED: "terminated"}


def outward_status(execution: Execution) -> str:
    """Name the status of an execution.

    The originals contradict each other about `failed`, so the policy decides: a linear backoff is
    the lease style's own.
    """
    if execution.retry is not None and execution.retry.backoff.type is BackoffType.LINEAR:
        return _OF_LEASE_STYLE.get(execution.state, _STATUS[execution.state])
    return _STATUS[execution.state]


def completed_at(execution: Execution) -> datetime | None:
    """Say when an execution succeeded; whatever else ended it, it is not completed (C38)."""
    return execution.finished_at if execution.state is State.SUCCEEDED else None


@attrs.frozen(kw_only=True)
class ErrorView:
    """What a task, or its supervisor, said of a failure."""

    message: str
    code: str | None = None
    error_class: str | None = None
    types: tuple[str, ...] = ()
    retry_after_seconds: float | None = None
    retry_at: datetime | None = None
    stack: str | None = None

    @classmethod
    def of(cls, text: str | None) -> Self | None:
        """Read the ledger's text; all of a text that is no error is the message."""
        if text is None:
            return None
        if (error := read_error(text)) is None:
            return cls(message=text)
        new = {
            "error_class": error.error_class.value,
            "retry_after_seconds": seconds(error.retry_after),
        }
        return cls(**same(cls, error) | new)


def read_error(text: str | None) -> TaskError | None:
    try:
        return msgspec.json.decode(text or "", type=TaskError)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def same(view: type[attrs.AttrsInstance], source: object) -> dict[str, Any]:
    """Give the fields of a view that its source has under the same names, as it has them."""
    names = (field.name for field in attrs.fields(view))
    return {name: getattr(source, name) for name in names if hasattr(source, name)}


def seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def json_value(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Read params; what cannot be shown as JSON stays the text that it is.

    >>> json_value('{"a":1}'), json_value('{')
    ({'a': 1}, '{')
    """
    try:
        if text.count("[") + text.count("{") > DEEPEST:  # it may be too deep: read it within others
            msgspec.json.decode(f"{'[' * DEEPEST}{text}{']' * DEEPEST}")
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
