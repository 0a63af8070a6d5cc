"""Moments with numbers in one column, as JSON: `[[microseconds since 1970, number], …]`."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

#: Moments, oldest first, each with a number.
Counts = tuple[tuple[datetime, int], ...]

#: Beyond this no row of ours is.
MOST_MOMENTS: Final = 256
LONGEST: Final = MOST_MOMENTS * len("[1234567890123456,1000000],")
LARGEST_NUMBER: Final = 2**31 - 1

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_decode: Final = msgspec.json.Decoder(list[tuple[int, int]]).decode


def write_counts(counts: Sequence[tuple[datetime, int]]) -> str:
    """Write moments and numbers.

    >>> write_counts([(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 3)])
    '[[1000000,3]]'
    """
    return msgspec.json.encode([((at - _EPOCH) // _MICROSECOND, n) for at, n in counts]).decode()


def read_counts(text: str, *, before: datetime) -> Counts:
    """Read what `write_counts` wrote; a person may have written anything.

    Raises:
        ValueError: it cannot be ours: too many, out of bounds, or not *before* that moment.
    """
    found = sorted(_decode(text))
    if len(found) > MOST_MOMENTS:
        raise ValueError(f"there are {len(found):,} moments, more than {MOST_MOMENTS}")
    if any(not 0 <= at < (before - _EPOCH) // _MICROSECOND for at, _ in found):
        raise ValueError("a moment is before 1970, or too far away")
    if any(not 0 < number <= LARGEST_NUMBER for _, number in found):
        raise ValueError("a number is out of bounds")
    return tuple((_EPOCH + at * _MICROSECOND, number) for at, number in found)
