"""Ending what waits: where a person has written that into its row, or its time is over."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection, Row, and_, bindparam, or_, select

from cronhare.domain.execution import WAITING, Execution
from cronhare.domain.lifecycle.transitions import cancel, expire, has_expired

from ..isolation import Written, pass_over, set_apart, write_each
from ..mapping.execution_rows import BY_IDS, executions_of
from ..mapping.transition_columns import write_changes
from ..schema.tables import executions
from ..schema.types import UtcDateTime
from ..transactions.database import Database, StorePart, repeatable, repeatable_unless_locked

#: A state, and the last row of it that was looked at, by the index of states.
_Place: TypeAlias = tuple[str, datetime | None, int]

#: Cancelled in one transaction.
_AT_ONCE: Final = 1_000

_STATES: Final = sorted(state.value for state in WAITING)
_CHECK: Final = bindparam("check_at", type_=UtcDateTime)
_ROWS: Final = (
    select(
        executions.c.id,
        executions.c.check_at,
        executions.c.cancel_requested,
        executions.c.expires_at,
    )
    .where(executions.c.state == bindparam("state"))
    .order_by(executions.c.check_at, executions.c.id)
    .limit(bindparam("limit"))
)
_ROWS_AFTER: Final = _ROWS.where(
    and_(
        executions.c.check_at >= _CHECK,
        or_(executions.c.check_at > _CHECK, executions.c.id > bindparam("after")),
    )
)
_ASKED: Final = BY_IDS.with_for_update(skip_locked=True)


class AskedEnds(StorePart):
    """The part of `ClaimStorePort` that cancels what waits, or lets it expire.

    There is no index of the flag, nor of the time, which each new row would pay for: the waiting
    rows are looked at in turns, a page with each call.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._place: _Place = (_STATES[0], None, 0)

    def end_waiting(self, *, now: datetime, limit: int) -> Sequence[Execution]:
        asked = self._look(limit, now)
        parts = (asked[at : at + _AT_ONCE] for at in range(0, len(asked), _AT_ONCE))
        return [one for part in parts for one in self._cancel(part, now)]

    @repeatable
    def _look(self, limit: int, now: datetime) -> list[int]:
        """Look at the next so many rows that wait; answers which of them are asked to end."""
        asked: list[int] = []
        left = limit
        with self._database.read("looking for what waits no more") as connection:
            for _ in range(len(_STATES) + 1):  # all, from within the first to its beginning
                rows = self._next_rows(connection, left)
                asked += [row.id for row in rows if _is_over(row, now)]
                left -= len(rows)
                if not left:
                    break
        return [*dict.fromkeys(asked)]

    def _next_rows(self, connection: Connection, limit: int) -> Sequence[Any]:
        state, check_at, after = self._place
        if check_at is None:
            rows = connection.execute(_ROWS, {"state": state, "limit": limit}).all()
        else:
            place = {"state": state, "check_at": check_at, "after": after, "limit": limit}
            rows = connection.execute(_ROWS_AFTER, place).all()
        last = rows[-1] if rows else None
        if last is not None and len(rows) == limit and isinstance(last.check_at, datetime):
            self._place = (state, last.check_at, last.id)
        else:
            self._place = (_STATES[(_STATES.index(state) + 1) % len(_STATES)], None, 0)
        return rows

    def _cancel(self, ids: Sequence[int], now: datetime) -> Sequence[Execution]:
        @repeatable_unless_locked
        def end(part: Sequence[int]) -> Written[Execution]:
            with self._database.write("ending what waits no more") as connection:
                rows: Any = connection.execute(_ASKED, {"ids": list(part)})
                # A broken row is set apart by who finds it overdue.
                found = [one for one in executions_of(connection, rows) if one.problem is None]
                ended = [
                    (one, cancel(one, now=now) if one.cancel_requested else expire(one, now=now))
                    for one in found
                    if one.state in WAITING and (one.cancel_requested or has_expired(one, now=now))
                ]
                write_changes(connection, self._database.dialect, ended)
            return Written([after for _, after in ended], changed=bool(ended))

        def refused(id_: int, why: Exception) -> Sequence[Execution]:
            set_apart(self._database, id_, str(why), now, still=lambda seen: seen.state in WAITING)
            return ()

        return write_each(
            ids,
            end,
            refused=refused,
            locked=lambda _: (),
            doubted=lambda id_, why: pass_over(self._database, id_, why, now),
        )


def _is_over(row: Row[Any], now: datetime) -> bool:
    is_late = isinstance(row.expires_at, datetime) and row.expires_at < now
    return bool(row.cancel_requested) or is_late
