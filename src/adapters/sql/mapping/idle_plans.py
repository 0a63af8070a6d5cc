"""Why nothing of a schedule is due, from the row of its plan."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row

from cronhare.domain.schedules.idle import Idle, Why

_WHY: Final = {why.value: why for why in Why}


def read_idle(row: Row[Any]) -> Idle | None:
    """Read it; what somebody else wrote there says nothing."""
    if row.idle is None or row.next_due_at is not None or not isinstance(row.resume_at, datetime):
        return None
    why = _WHY.get(row.idle) if isinstance(row.idle, str) else None
    return None if why is None else Idle(why=why, since=row.resume_at)
