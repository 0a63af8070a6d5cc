"""Lists of schedules: a page is found by the index of names, and only its rows are read."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, Engine, bindparam, func, select

from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.ports.schedules import MOST_COUNTED, ScheduleFilter, StoredSchedule
from cronhare.ports.system import ClockPort

from .mapping.execution_rows import id_of_display_name
from .schedule_edits import conditions_of
from .schedule_names import HAS_NONE, IS_USERS
from .schedules import STORED, stored
from .schema.tables import schedulers
from .transactions.database import Database, repeatable

_ROW: Final = schedulers.c
_IDS: Final = select(_ROW.id).where(IS_USERS)
_NAME_OF: Final = select(_ROW.name).where(_ROW.id == bindparam("id"))
_THESE: Final = STORED.where(_ROW.id.in_(bindparam("ids", expanding=True)))


class SqlScheduleLists:
    """Satisfies `ScheduleListPort`."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)

    @repeatable
    def page(
        self, which: ScheduleFilter, *, after: str | None = None, limit: int, now: datetime
    ) -> Sequence[StoredSchedule]:
        those = _IDS.where(*conditions_of(which, now))
        # Nearly none has a part of a text: all are read, and none by way of the index of names.
        name = _ROW.name if which.search is None else func.coalesce(_ROW.name, "")
        with self._database.read("listing schedules") as connection:
            place, nameless = _place(connection, after)
            ids = list[int]()
            if place is not None:
                named = those.where(name > place).order_by(name).limit(limit)
                ids += connection.scalars(named)
            if len(ids) < limit:
                rest = those.where(HAS_NONE, _ROW.id > nameless).order_by(_ROW.id)
                ids += connection.scalars(rest.limit(limit - len(ids)))
            return _these(connection, ids)

    @repeatable
    def count(self, which: ScheduleFilter, *, now: datetime) -> int:
        some = _IDS.where(*conditions_of(which, now)).limit(MOST_COUNTED + 1).subquery()
        with self._database.read("counting schedules") as connection:
            return connection.scalar(select(func.count()).select_from(some)) or 0


def _place(connection: Connection, after: str | None) -> tuple[object | None, int]:
    """Find where a page begins: behind a name, or behind an id of those that have none."""
    id_ = None if after is None else id_of_display_name(after)
    if id_ is None:
        return after or "", -LARGEST_ID
    # A name that cannot be shown, as it is too long, has its place among the others.
    name = connection.scalar(_NAME_OF, {"id": id_})
    return (None, id_) if name in {None, ""} else (name, -LARGEST_ID)


def _these(connection: Connection, ids: Sequence[int]) -> Sequence[StoredSchedule]:
    rows = connection.execute(_THESE, {"ids": ids}) if ids else ()
    found = {row.id: stored(row) for row in rows}
    return [found[id_] for id_ in ids if id_ in found]
