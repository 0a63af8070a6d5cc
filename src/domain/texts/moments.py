"""Moments for people, in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Final

_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
#: From here on the day of the week says less than the date.
_WEEK: Final = timedelta(days=6)

#: Further away a date says more than a number of days.
_FAR: Final = 60 * _DAY


def say_moment(moment: datetime) -> str:
    """Print a moment to the second.

    >>> say_moment(datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC))
    '2026-03-02 12:00:30Z'
    """
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def iso_moment(moment: datetime) -> str:
    """Write a moment in ISO 8601, for programs; without a fraction where there is none.

    >>> iso_moment(datetime(2026, 3, 2, 12, 0, tzinfo=UTC))
    '2026-03-02T12:00:00Z'
    """
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def say_due(moment: datetime) -> str:
    """Print a due instant: to the minute, unless it is none.

    >>> say_due(datetime(2026, 3, 2, 12, 0, tzinfo=UTC))
    '2026-03-02 12:00Z'
    >>> say_due(datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC))
    '2026-03-02 12:00:30Z'
    """
    return say_moment(moment) if moment.second else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}Z"


def say_time(moment: datetime) -> str:
    """Print the time of day, for a moment of today.

    >>> say_time(datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC))
    '12:00:30Z'
    """
    return f"{moment.astimezone(UTC):%H:%M:%S}Z"


def say_left(length: timedelta) -> str:
    """Print a length of time in its largest unit, rounded down.

    >>> say_left(timedelta(minutes=3, seconds=20)), say_left(timedelta(hours=50))
    ('3 min', '2 d')
    """
    if length < _MINUTE:
        return f"{length // timedelta(seconds=1)} s"
    if length < _HOUR:
        return f"{length // _MINUTE} min"
    if length < 2 * _DAY:
        return f"{length // _HOUR} h"
    return f"{length // _DAY} d"


def say_took(length: timedelta) -> str:
    """Print how long something took.

    >>> say_took(timedelta(milliseconds=120)), say_took(timedelta(seconds=200))
    ('0.12 s', '3 min 20 s')
    """
    seconds = length / timedelta(seconds=1)
    if length < _MINUTE:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    if length < _HOUR:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def say_beside(moment: datetime, now: datetime) -> str:
    """Print a moment as people think of it beside *now*; one that is far away as its date.

    >>> say_beside(datetime(2026, 3, 2, 12, 3, tzinfo=UTC), datetime(2026, 3, 2, 12, tzinfo=UTC))
    'in 3 min'
    >>> say_beside(datetime(2026, 3, 2, 10, 0, tzinfo=UTC), datetime(2026, 3, 2, 12, tzinfo=UTC))
    '2 h ago'
    """
    length = moment - now
    if abs(length) >= _FAR:
        return f"{moment.astimezone(UTC):%Y-%m-%d}"
    if abs(length) < timedelta(seconds=1):
        return "now"
    return f"in {say_left(length)}" if length > timedelta(0) else f"{say_left(-length)} ago"


def say_near(moment: datetime, now: datetime) -> str:
    """Print a due instant without what it has in common with today.

    >>> say_near(datetime(2026, 3, 2, 12, 3, tzinfo=UTC), datetime(2026, 3, 2, 12, tzinfo=UTC))
    '12:03Z'
    >>> say_near(datetime(2026, 3, 4, 12, 3, tzinfo=UTC), datetime(2026, 3, 2, 12, tzinfo=UTC))
    'Wed 12:03Z'
    """
    due = moment.astimezone(UTC)
    if abs(moment - now) >= _FAR:
        return f"{due:%Y-%m-%d}"
    if abs(moment - now) >= _WEEK:
        return f"{due:%m-%d}"
    time = f"{due:%H:%M:%S}Z" if due.second else f"{due:%H:%M}Z"
    return time if due.date() == now.astimezone(UTC).date() else f"{due:%a} {time}"


def iso_ms(moment: datetime) -> str:
    """Write a moment for messages and log lines: ISO 8601 with milliseconds and a Z.

    >>> iso_ms(datetime(2025, 12, 12, 12, 3, 39, 2999, tzinfo=UTC))
    '2025-12-12T12:03:39.002Z'
    """
    return f"{moment.astimezone(UTC).isoformat(timespec='milliseconds')[:-6]}Z"
