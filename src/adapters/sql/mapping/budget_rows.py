"""Retry budgets in their rows: grants are JSON, `[[microseconds since 1970, number], …]`."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from cronhare.domain.retries.budget import (
    LARGEST,
    LONGEST_DEFERRAL,
    LONGEST_WINDOW,
    PARTS,
    Budget,
)

from ..schema.tables import budgets
from ..schema.types import milliseconds
from .tolerant_reading import TableReader, text, whole

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

#: Beyond this no row of ours is.
_MOST_GRANTS: Final = 2 * PARTS
_LONGEST_GRANTED: Final = _MOST_GRANTS * len("[1234567890123456,1000000],")

_BUDGET: Final = TableReader(
    budgets,
    queue=text(255),
    most=whole(range(1, LARGEST + 1)),
    window_ms=whole(range(1, LONGEST_WINDOW // timedelta(milliseconds=1) + 1)),
    granted=text(_LONGEST_GRANTED, stand_in="[]"),
)
_decode: Final = msgspec.json.Decoder(list[tuple[int, int]]).decode


def budget_values(budget: Budget) -> dict[str, Any]:
    """Give the columns of a budget, but for its queue."""
    grants = [((at - _EPOCH) // _MICROSECOND, number) for at, number in budget.grants]
    return {
        "most": budget.most,
        "window_ms": milliseconds(budget.window),
        "granted": msgspec.json.encode(grants).decode(),
        "spent_since": budget.spent_since,
        "last_at": budget.last,
    }


def budget_of(row: Any, *, now: datetime) -> tuple[Budget, str | None]:  # noqa: ANN401 - see RowLike
    """Read a budget, and say what was wrong with its row: what cannot be read was not granted."""
    sound, problem = _BUDGET.read(row)
    grants: tuple[tuple[datetime, int], ...] = ()
    try:
        grants = _grants_of(sound.granted, before=now + LONGEST_DEFERRAL + LONGEST_WINDOW)
    except ValueError as error:
        problem = problem or f"{budgets.name}: granted: {error}"
    budget = Budget(
        queue=sound.queue,
        most=sound.most,
        window=timedelta(milliseconds=sound.window_ms),
        grants=grants,
        spent_since=sound.spent_since,
    )
    return budget, problem


def _grants_of(granted: str, *, before: datetime) -> tuple[tuple[datetime, int], ...]:
    """Read grants; a person may have written anything.

    Raises:
        ValueError: they cannot be ours.
    """
    found = sorted(_decode(granted))
    if len(found) > _MOST_GRANTS:
        raise ValueError(f"there are {len(found):,} moments, more than {_MOST_GRANTS}")
    if any(not 0 <= at < (before - _EPOCH) // _MICROSECOND for at, _ in found):
        raise ValueError("a moment is before 1970, or too far away")
    if any(not 0 < number <= LARGEST for _, number in found):
        raise ValueError("a number is out of bounds")
    return tuple((_EPOCH + at * _MICROSECOND, number) for at, number in found)
