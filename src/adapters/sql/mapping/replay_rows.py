"""Replays, from rows and to rows."""

from collections.abc import Mapping
from typing import Any, Final

import attrs
import msgspec

from cronhare.domain.lifecycle.backfill import BackfillOrder
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import Replay, ReplayProgress, ReplayState
from cronhare.domain.texts.printable import shortened

from ..schema.tables import replays
from .own_rows import BrokenRow, OwnTable, text
from .schedule_columns import LONG_AGO

#: Characters of JSON that are read as an order: ten times the longest that is written.
LONGEST_ORDER: Final = 100_000
_LONGEST_REASON: Final = 1_000

_COUNTED: Final = ("waiting", "released", "failing", "succeeded", "failed", "refused", "left_out")
REPLAY: Final = OwnTable(replays, asked=text(LONGEST_ORDER), state=ReplayState)


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


def read_replay(row: Any) -> Replay:  # noqa: ANN401 - a row
    """Read a row; a broken one has stopped, and its reason says what is wrong with it."""
    try:
        cells = REPLAY.read(row)
        order = _read_order(cells.asked)
    except BrokenRow as broken:
        return _stopped(row.id, broken.why, broken.cells)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return _stopped(row.id, f"{replays.name}: asked: {error}", msgspec.structs.asdict(cells))
    return Replay(
        id=cells.id,
        order=order,
        created_at=cells.created_at,
        up_to=cells.up_to,
        collected_to=cells.collected_to,
        state=cells.state,
        reason=cells.reason,
        next_at=cells.next_at,
        ended_at=cells.ended_at,
        progress=ReplayProgress(
            **{name: getattr(cells, name) for name in _COUNTED},
            is_collected=cells.collected_to >= cells.up_to,
        ),
    )


def _stopped(id_: int, problem: str, cells: Mapping[str, Any]) -> Replay:
    created_at = cells.get("created_at", LONG_AGO)
    return Replay(
        id=id_,
        order=None,
        created_at=created_at,
        up_to=0,
        collected_to=0,
        state=ReplayState.STOPPED,
        reason=shortened(problem, _LONGEST_REASON),
        next_at=created_at,
        ended_at=cells.get("ended_at"),
        progress=ReplayProgress(**{name: cells.get(name, 0) for name in _COUNTED}),
    )
