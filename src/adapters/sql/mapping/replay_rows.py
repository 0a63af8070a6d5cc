"""Replays, from rows and to rows."""

from typing import Any, Final

import attrs
import msgspec

from cronhare.domain.lifecycle.backfill import BackfillOrder
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import Replay, ReplayProgress, ReplayState
from cronhare.domain.texts.printable import shortened

from ..schema.tables import replays
from .tolerant_reading import COUNTS, TableReader, text, whole

#: Characters of JSON that are read as an order: ten times the longest that is written.
LONGEST_ORDER: Final = 100_000
_LONGEST_REASON: Final = 1_000

_COUNTED: Final = ("waiting", "released", "failing", "succeeded", "failed", "refused", "left_out")
_READER: Final = TableReader(
    replays,
    asked=text(LONGEST_ORDER),
    state=text(16),
    **{name: whole(COUNTS) for name in _COUNTED},
)


def progress_values(progress: ReplayProgress) -> dict[str, int]:
    """Give the columns that count."""
    return {name: getattr(progress, name) for name in _COUNTED}


def write_order(order: ReplayOrder | BackfillOrder) -> str:
    """Write what was asked for."""
    return msgspec.json.encode(order).decode()


@attrs.frozen
class _Kind:
    kind: str = "replay"


def _read_order(text: str) -> ReplayOrder | BackfillOrder:
    if msgspec.json.decode(text, type=_Kind).kind == "backfill":
        return msgspec.json.decode(text, type=BackfillOrder)
    return msgspec.json.decode(text, type=ReplayOrder)


def read_replay(row: Any) -> Replay:  # noqa: ANN401 - see `TableReader.read`
    """Read a row; a broken one has stopped, and its reason says what is wrong with it."""
    cells, problem = _READER.read(row)
    order: ReplayOrder | BackfillOrder | None = None
    try:
        order = _read_order(cells.asked)
        state = ReplayState(cells.state)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        problem = problem or f"Replay: its order or state cannot be read: {error}"
    if problem is not None:
        order, state = None, ReplayState.STOPPED
    return Replay(
        id=cells.id,
        order=order,
        created_at=cells.created_at,
        up_to=cells.up_to,
        collected_to=cells.collected_to,
        state=state,
        reason=shortened(problem, _LONGEST_REASON) if problem else cells.reason,
        next_at=cells.next_at,
        ended_at=cells.ended_at,
        progress=ReplayProgress(
            **{name: getattr(cells, name) for name in _COUNTED},
            is_collected=cells.collected_to >= cells.up_to,
        ),
    )
