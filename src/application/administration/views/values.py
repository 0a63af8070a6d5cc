"""Parts of views: durations as numbers, params as JSON, retries, errors."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final, Self

import attrs
import msgspec

from cronhare.domain.retries.outcome import CrashPolicy, TaskError
from cronhare.domain.retries.policy import RetryPolicy

#: Levels of params that are shown as JSON: 1,000 can be read, and not be written inside of a view.
DEEPEST: Final = 500


@attrs.frozen(kw_only=True)
class CrashView:
    """How many crashes within a window make a poison pill, and whether timeouts are any."""

    limit: int
    window_seconds: float
    timeouts: bool

    @classmethod
    def of(cls, policy: CrashPolicy) -> Self:
        window = policy.window.total_seconds()
        return cls(limit=policy.limit, window_seconds=window, timeouts=policy.timeouts)


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
        backoff = policy.backoff
        longest = backoff.max_delay
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
        try:
            error = msgspec.json.decode(text, type=TaskError)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return cls(message=text)
        new = {
            "error_class": error.error_class.value,
            "retry_after_seconds": seconds(error.retry_after),
        }
        return cls(**same(cls, error) | new)


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
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    might_be_deep = text.count("[") + text.count("{") > DEEPEST
    return text if might_be_deep and _is_deeper(value, DEEPEST) else value


def _is_deeper(value: Any, levels: int) -> bool:  # noqa: ANN401
    level = [value]
    for _ in range(levels + 1):
        level = [child for each in level for child in _children(each)]
    return bool(level)


def _children(value: Any) -> Iterable[Any]:  # noqa: ANN401
    match value:
        case dict():
            return value.values()
        case list():
            return value
    return ()
