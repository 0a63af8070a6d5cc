"""Moments for people, in UTC."""

from datetime import UTC, datetime


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
