"""When a server wants to be asked again: Retry-After, as it is written in HTTP and by tasks."""

import math
import re
from datetime import UTC, datetime, timedelta

from ..texts.moments import say_duration
from .outcome import TaskError

#: A longer one counts as this, jitter included: no server stops a schedule for more than a day.
LONGEST_RETRY_AFTER = timedelta(hours=24)

#: What is longer yet is none: the number of seconds that ten digits hold.
_LONGEST_READ = timedelta(seconds=10**10 - 1)

#: The longest form of a date in HTTP, of RFC 850 (RFC 9110, 5.6.7), has 33 characters.
_LONGEST_TEXT = 40

_SECONDS = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?")


def read_retry_after(value: object) -> timedelta | datetime | None:
    """Read a Retry-After: seconds as a number or text, or an HTTP date; None if it is neither.

    >>> read_retry_after(120) == read_retry_after("120")
    True
    >>> read_retry_after("Fri, 12 Dec 2025 08:00:00 GMT").isoformat()
    '2025-12-12T08:00:00+00:00'
    >>> read_retry_after("soon"), read_retry_after(-1), read_retry_after(1e300)
    (None, None, None)
    """
    match value:
        case bool():
            return None
        case int() | float():
            return plausible_wait(value, timedelta(seconds=1))
        case str() if len(value) <= _LONGEST_TEXT:
            text = value.strip()
            if _SECONDS.fullmatch(text):
                return plausible_wait(float(text), timedelta(seconds=1))
            return _http_date(text)
    return None


def plausible_wait(number: object, unit: timedelta) -> timedelta | None:
    """Give so many units as a wait, or None if it cannot be one: below nothing, or centuries."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if not 0 <= number <= _LONGEST_READ / unit:  # before the conversion: it may fit no float
        return None
    return timedelta(microseconds=math.ceil(number * (unit / timedelta(microseconds=1))))


def asked_wait(error: TaskError, *, now: datetime) -> timedelta:
    """Say how long a server is left alone from *now* on, as it asked for; nothing if it did not."""
    return min(_said_wait(error, now), LONGEST_RETRY_AFTER)


def note_of_asked_wait(error: TaskError, *, now: datetime) -> str:
    """Say what was asked for, and where that is longer than what counts; or nothing."""
    said = _said_wait(error, now)
    if not said:
        return ""
    whole = timedelta(seconds=max(1, round(said.total_seconds())))
    asked = f"it was asked to wait {say_duration(whole)}"
    if said <= LONGEST_RETRY_AFTER:
        return asked
    return f"{asked}, of which {LONGEST_RETRY_AFTER / timedelta(hours=1):.0f}h count"


def _said_wait(error: TaskError, now: datetime) -> timedelta:
    at = timedelta(0) if error.retry_at is None else error.retry_at - now
    return max(timedelta(0), error.retry_after or timedelta(0), at)


def _http_date(text: str) -> datetime | None:
    from email.utils import (  # noqa: PLC0415 - most waits are seconds, and it takes long
        parsedate_to_datetime,
    )

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    # HTTP knows no other zone; one without a zone is UTC likewise.
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        return None
