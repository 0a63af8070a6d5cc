"""Pauses, from rows and to rows."""

from types import SimpleNamespace
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, insert, select

from cronhare.domain.schedules.pause import Pause

from ..schema.tables import pauses
from .tolerant_reading import PAUSE

_THIS: Final = pauses.c.scheduler_id == bindparam("scheduler_id")
#: The pause of one schedule.
PAUSE_OF: Final = select(pauses).where(_THIS)
_REMOVE: Final = delete(pauses).where(_THIS)


def read_pause(row: Any) -> tuple[Pause | None, str | None]:  # noqa: ANN401 - see `TableReader.read`
    """Read a pause, or say what is wrong with its row."""
    sound, problem = PAUSE.read(row)
    if problem is not None:
        return None, f"{problem}; `cronhare schedules pause` or `resume` mends it"
    return Pause(
        since=sound.paused_at, until=sound.paused_until, by=sound.paused_by, reason=sound.reason
    ), None


def pause_beside(row: Row[Any]) -> tuple[Pause | None, str | None]:
    """Read the pause that a row was joined with, under names that begin with `pause_`."""
    if row.pause_scheduler_id is None:
        return None, None
    cells = {name: getattr(row, f"pause_{name}") for name in pauses.c.keys()}  # noqa: SIM118
    return read_pause(_Cells(cells))


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


class _Cells(SimpleNamespace):
    """A row of one table within a wider one."""

    def __init__(self, cells: dict[str, Any]) -> None:
        super().__init__(**cells)
        self._fields = tuple(cells)
        self._values = tuple(cells.values())

    def __getitem__(self, place: int) -> Any:  # noqa: ANN401
        return self._values[place]

    def __iter__(self) -> Any:  # noqa: ANN401
        return iter(self._values)
