"""Where the executions of a time are: their ids grow with the time of the claim, or nearly so.

An index of times would have to be kept at each claim; some twenty looks at the primary key do.
"""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, bindparam, func, select

from ..schema.tables import executions

#: Claims overtake each other: one that began first may be written last, and a clock may be set.
OUT_OF_ORDER: Final = timedelta(hours=1)

_ID: Final = executions.c.id
#: Two looks: asked for both at once, SQLite reads all ids.
_EDGES: Final = select(
    select(func.min(_ID)).scalar_subquery().label("lowest"),
    select(func.max(_ID)).scalar_subquery().label("highest"),
)
_FROM: Final = (
    select(_ID, executions.c.executed_at).where(bindparam("id") <= _ID).order_by(_ID).limit(1)
)


def ids_between(
    connection: Connection, since: datetime | None, until: datetime | None
) -> tuple[int, int] | None:
    """Give the first id, and the one after the last, of what was claimed from *since* to *until*.

    Some others are among them. None if there is no execution at all.
    """
    lowest, highest = connection.execute(_EDGES).one()
    if lowest is None:
        return None
    first, end = lowest, highest + 1
    if since is not None:
        first = first_claimed(connection, since - OUT_OF_ORDER, first, end)
    if until is not None:
        end = first_claimed(connection, until + OUT_OF_ORDER, first, end)
    return first, end


def first_claimed(connection: Connection, moment: datetime, low: int, high: int) -> int:
    """Find the first id, from *low* to before *high*, that was claimed at *moment* or later.

    *high* if there is none. What cannot be read counts as claimed earlier.
    """
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(_FROM, {"id": middle}).first()
        at = None if row is None or row.id >= high else row.executed_at
        if row is None or row.id >= high or (isinstance(at, datetime) and at >= moment):
            high = middle
        else:
            low = row.id + 1
    return low
