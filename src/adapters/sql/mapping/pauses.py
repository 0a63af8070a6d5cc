"""Pauses, from rows and to rows."""

from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, insert, select

from cronhare.domain.schedules.pause import Pause

from ..schema.named_rows import row_maker
from ..schema.tables import pauses
from .own_rows import BrokenRow, OwnTable

_THIS: Final = pauses.c.scheduler_id == bindparam("scheduler_id")
#: The pause of one schedule.
PAUSE_OF: Final = select(pauses).where(_THIS)
_REMOVE: Final = delete(pauses).where(_THIS)
#: Makes a row of a pause's columns within a wider one.
_CELLS: Final = row_maker(tuple(pauses.c.keys()))


PAUSE: Final = OwnTable(pauses)


def read_pause(row: Any) -> tuple[Pause | None, str | None]:  # noqa: ANN401 - a row
    """Read a pause, or say what is wrong with its row."""
    try:
        read = PAUSE.read(row)
    except BrokenRow as broken:
        return None, f"{broken.why}; `cronhare schedules pause` or `resume` mends it"
    pause = Pause(
        since=read.paused_at, until=read.paused_until, by=read.paused_by, reason=read.reason
    )
    return pause, None


def pause_beside(row: Row[Any]) -> tuple[Pause | None, str | None]:
    """Read the pause that a row was joined with, under names that begin with `pause_`."""
    if row.pause_scheduler_id is None:
        return None, None
    return read_pause(_CELLS(getattr(row, f"pause_{name}") for name in pauses.c.keys()))  # noqa: SIM118


def write_pause(connection: Connection, scheduler_id: int, pause: Pause | None) -> None:
    """Replace a schedule's pause, whatever is there; None leaves none."""
    connection.execute(_REMOVE, {"scheduler_id": scheduler_id})
    if pause is not None:
        values = {
            "scheduler_id": scheduler_id,
            "paused_at": pause.since,
            "paused_until": pause.until,
            "paused_by": pause.by,
            "reason": pause.reason,
        }
        connection.execute(insert(pauses), values)
