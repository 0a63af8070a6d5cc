"""Final ends of executions: whether the messages that report them are in a queue."""

import logging
from collections.abc import Collection, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import BindParameter, bindparam, select, update

from cronhare.application.logs import say
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.messages.messages import AttemptRef

from ..cooldown import Cooldown, excluding
from ..isolation import Written, write_each
from ..mapping.archive_rows import read_archived
from ..schema.tables import failed_tasks
from ..schema.types import UtcDateTime
from ..transactions.database import Database, StorePart, repeatable, repeatable_unless_locked

log = logging.getLogger(__name__)

_IDS: Final[BindParameter[Any]] = bindparam("ids", expanding=True)
_IS_OVERDUE: Final = failed_tasks.c.check_at <= bindparam("until", type_=UtcDateTime)

_OVERDUE_IDS: Final = (
    select(failed_tasks.c.id)
    .where(_IS_OVERDUE)
    .order_by(failed_tasks.c.check_at, failed_tasks.c.id)
    .limit(bindparam("limit"))
)
# Chosen first and taken then, as what is overdue to begin.
_OVERDUE: Final = (
    select(failed_tasks)
    .where(failed_tasks.c.id.in_(_IDS), _IS_OVERDUE)
    .order_by(failed_tasks.c.check_at, failed_tasks.c.id)
    .with_for_update(skip_locked=True)
)
_OF_ATTEMPTS: Final = (
    select(failed_tasks.c.id, failed_tasks.c.execution_id, failed_tasks.c.attempts)
    .where(failed_tasks.c.execution_id.in_(_IDS), failed_tasks.c.check_at.is_not(None))
    .with_for_update(skip_locked=True)
)
_CHECK: Final = (
    update(failed_tasks)
    .where(failed_tasks.c.id.in_(_IDS))
    .values(check_at=bindparam("at", type_=UtcDateTime))
)


class UnconfirmedEnds(StorePart):
    """The part of `ClaimStorePort` that is about ends. Locked rows rest for a minute."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._resting_ends = Cooldown()

    def mark_ends_published(self, ends: Collection[AttemptRef]) -> None:
        """See `ClaimStorePort.mark_ends_published`. What is refused or locked stays overdue."""

        @repeatable_unless_locked
        def mark(part: Sequence[AttemptRef]) -> Written[None]:
            with self._database.write("marking ends as published") as connection:
                asked = {"ids": [end.execution_id for end in part]}
                rows = connection.execute(_OF_ATTEMPTS, asked).all()
                told = {(end.execution_id, end.attempt) for end in part}
                ids = [row.id for row in rows if (row.execution_id, row.attempts) in told]
                if ids:
                    connection.execute(_CHECK, {"ids": ids, "at": None})
                return Written((), changed=bool(ids))

        ordered = sorted(ends, key=attrgetter("execution_id"))

        def left(_: AttemptRef, __: Exception) -> Sequence[None]:
            return ()

        write_each(ordered, mark, refused=left, doubted=left, locked=lambda _: ())

    def overdue_ends(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Archived]:
        """See `ClaimStorePort.overdue_ends`. Most looks find nothing, and take no lock."""
        until = now - graces.ended
        refusals: list[Exception] = []

        @repeatable_unless_locked
        def take(part: Sequence[int]) -> Written[Archived]:
            with self._database.write("taking ends that are overdue") as connection:
                found = connection.execute(_OVERDUE, {"ids": part, "until": until}).all()
                sound = read_archived(found)
                broken = [*({row.id for row in found} - {one.id for one in sound})]
                if broken:  # nothing can be sent of them
                    connection.execute(_CHECK, {"ids": broken, "at": None})
                if sound:
                    connection.execute(_CHECK, {"ids": [one.id for one in sound], "at": now})
            for id_ in set(part).difference(row.id for row in found):
                rest(id_)
            return Written(sound, changed=bool(found))

        def rest(id_: int) -> Sequence[Archived]:
            self._resting_ends.note(id_, now)
            return ()

        def refused(id_: int, why: Exception) -> Sequence[Archived]:
            refusals.append(why)
            return rest(id_)

        ids = self._choose_ends(now, until, limit)
        free = write_each(
            ids, take, refused=refused, doubted=refused, locked=rest, untried=lambda _: ()
        )
        if refusals:
            count = len(refusals)
            text = f"Ends for good whose messages have to wait: {count}, for {refusals[0]}"
            say(log, logging.ERROR, "ledger.refused", text)
        return free

    @repeatable
    def _choose_ends(self, now: datetime, until: datetime, limit: int) -> Sequence[int]:
        statement = excluding(_OVERDUE_IDS, failed_tasks.c.id, self._resting_ends.at(now))
        with self._database.read("looking for ends that are overdue") as connection:
            return connection.scalars(statement, {"until": until, "limit": limit}).all()
