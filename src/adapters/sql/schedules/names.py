"""What is asked of all schedules, and answered without reading them: names, and queues."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, bindparam, func, or_, select

from cronhare.domain.schedules.standalone import standalone_queue
from cronhare.domain.topology import MAIN_QUEUE

from ..database import StorePart, repeatable
from ..rows.executions import batches, display_name
from ..schema.tables import schedulers
from ..schema.types import HandWritten

_ROW: Final = schedulers.c
IS_USERS: Final = _ROW.system_id.is_(None)
IS_ON: Final = func.coalesce(_ROW.status, 0) != 0

#: What is listed by its name; the others have none.
HAS_NAME: Final = _ROW.name > ""
HAS_NONE: Final = or_(_ROW.name.is_(None), _ROW.name == "")

_NAMES: Final = select(_ROW.name, _ROW.id).where(IS_USERS, HAS_NAME)
_NAMELESS: Final = select(_ROW.id).where(IS_USERS, HAS_NONE).order_by(_ROW.id)
STAYS: Final = func.coalesce(_ROW.stay_alive, 0) != 0
_ON_QUEUES: Final = (
    select(_ROW.queue, func.count()).where(IS_USERS, IS_ON, ~STAYS).group_by(_ROW.queue)
)
#: Their names are asked for apart: so this is read from an index alone, as is the one above.
_ALIVE: Final = select(_ROW.id).where(IS_USERS, IS_ON, STAYS)
_EDITED: Final = _ROW.updated_at > bindparam("since", type_=HandWritten)
_NAMED: Final = select(_ROW.id, _ROW.name).where(_ROW.id.in_(bindparam("ids", expanding=True)))

#: So many names are asked for in one statement.
_AT_ONCE: Final = 1_000


class ScheduleNames(StorePart):
    """The part of `ScheduleStorePort` that reads no row in full."""

    @repeatable
    def near(self, name: str, *, limit: int) -> Collection[str]:
        half = limit // 2
        before = _NAMES.where(_ROW.name < name).order_by(_ROW.name.desc()).limit(half)
        after = _NAMES.where(_ROW.name >= name).order_by(_ROW.name).limit(half)
        with self._database.read("looking for names") as connection:
            found = [*connection.execute(before), *connection.execute(after)]
            if len(found) < half:  # there are few schedules
                found += [(None, id_) for id_ in connection.scalars(_NAMELESS.limit(half))]
        return [display_name(name, id_) for name, id_ in found]

    @repeatable
    def on_queues(self) -> Mapping[str, int]:
        counted = Counter[str]()
        with self._database.read("counting the schedules of queues") as connection:
            for queue, number in connection.execute(_ON_QUEUES):
                counted[queue if isinstance(queue, str) and queue else MAIN_QUEUE] += number
            counted.update(map(standalone_queue, _staying_alive(connection)))
        return counted

    @repeatable
    def staying_alive(self, *, since: datetime | None = None) -> Collection[str]:
        with self._database.read("looking for what stays alive") as connection:
            return [*_staying_alive(connection, since)]


def _staying_alive(connection: Connection, since: datetime | None = None) -> Iterator[str]:
    if since is None:
        alive = connection.scalars(_ALIVE).all()
    else:  # by the index of the times of edits
        alive = connection.scalars(_ALIVE.where(_EDITED), {"since": since}).all()
    for ids in batches(alive, _AT_ONCE):
        for id_, name in connection.execute(_NAMED, {"ids": ids}):
            yield display_name(name, id_)
