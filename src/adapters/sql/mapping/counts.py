"""Moments with numbers in one column, as JSON: `[[microseconds since 1970, number], …]`."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

#: Moments, oldest first, each with a number.
Counts = tuple[tuple[datetime, int], ...]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_decode: Final = msgspec.json.Decoder(list[tuple[int, int]]).decode


def write_counts(counts: Sequence[tuple[datetime, int]]) -> str:
    """Write moments and numbers.

    >>> write_counts([(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 3)])
    '[[1000000,3]]'
    """
    return msgspec.json.encode([((at - _EPOCH) // _MICROSECOND, n) for at, n in counts]).decode()


def read_counts(text: str) -> Counts:
    """Read what `write_counts` wrote.

    Raises:
        ValueError: it is something else.
        OverflowError: a moment is no year of ours.
    """
    return tuple((_EPOCH + at * _MICROSECOND, number) for at, number in _decode(text))
