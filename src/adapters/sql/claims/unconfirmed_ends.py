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
from cronhare.ports.ledger import LedgerRefused, LedgerUnavailable

from ..cooldown import Cooldown, excluding
from ..isolation.bisection import BatchResult, OnLocked
from ..isolation.past_locked import take_past_locked
from ..isolation.refusals import bisect_batch
from ..mapping.archive_rows import read_archived
from ..schema.tables import failed_tasks
from ..schema.types import UtcDateTime
from ..transactions.database import Database, StorePart, repeatable
from ..transactions.lock_waits import LockWaitBudget

log = logging.getLogger(__name__)

_IDS: Final[BindParameter[Any]] = bindparam("ids", expanding=True)
_IS_OVERDUE: Final = failed_tasks.c.check_at <= bindparam("until", type_=UtcDateTime)

_OVERDUE_IDS: Final = (
    select(failed_tasks.c.id)
    .where(_IS_OVERDUE)
    .order_by(failed_tasks.c.check_at, failed_tasks.c.id)
    .limit(bindparam("limit"))
    .offset(bindparam("left"))
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
    """The part of `ClaimStorePort` that is about ends. Locked rows are passed over."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._ends_left_out = Cooldown()
        self._ends_budget = LockWaitBudget()

    def mark_ends_published(self, ends: Collection[AttemptRef]) -> None:
        """See `ClaimStorePort.mark_ends_published`. What is refused stays overdue."""
        bisect_batch(
            sorted(ends, key=attrgetter("execution_id")),
            self._mark_ends,
            alone=lambda _end, _refusal: None,
            on_locked=OnLocked(lambda _end: None, self._ends_budget),
        )

    @repeatable
    def _mark_ends(self, ends: Sequence[AttemptRef]) -> BatchResult[None]:
        with self._database.write("marking ends as published") as connection:
            asked = {"ids": [end.execution_id for end in ends]}
            rows = connection.execute(_OF_ATTEMPTS, asked).all()
            told = {(end.execution_id, end.attempt) for end in ends}
            ids = [row.id for row in rows if (row.execution_id, row.attempts) in told]
            if ids:
                connection.execute(_CHECK, {"ids": ids, "at": None})
            return BatchResult((), ids)

    def overdue_ends(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Archived]:
        """See `ClaimStorePort.overdue_ends`. Most looks find nothing, and take no lock."""
        until = now - graces.ended

        @repeatable
        def take(ids: Sequence[int]) -> BatchResult[Sequence[Archived]]:
            with self._database.write("taking ends that are overdue") as connection:
                found = connection.execute(_OVERDUE, {"ids": ids, "until": until})
                read = list(map(read_archived, found))
                sound = [one for one in read if one.problem is None]
                broken = [one.id for one in read if one.problem is not None]
                if broken:  # nothing could be sent that its reader would not park
                    connection.execute(_CHECK, {"ids": broken, "at": None})
                if sound:
                    connection.execute(_CHECK, {"ids": [one.id for one in sound], "at": now})
                written = [*broken, *(one.id for one in sound)]
                return BatchResult([sound], written)

        refused: list[LedgerRefused | LedgerUnavailable] = []

        def pass_over(id_: int) -> Sequence[Archived]:
            self._ends_left_out.note(id_, now)
            return ()

        def alone(id_: int, refusal: LedgerRefused | LedgerUnavailable) -> Sequence[Archived]:
            refused.append(refusal)
            return pass_over(id_)

        statement = excluding(_OVERDUE_IDS, failed_tasks.c.id, self._ends_left_out.at(now))

        @repeatable
        def choose(most: int, left: int) -> Sequence[int]:
            asked = {"until": until, "limit": most, "left": left}
            with self._database.read("looking for ends that are overdue") as connection:
                return connection.scalars(statement, asked).all()

        on_locked = OnLocked(pass_over, self._ends_budget, finds_again=True)

        def take_free(ids: Sequence[int]) -> Sequence[Archived]:
            taken = bisect_batch(ids, take, alone=alone, on_locked=on_locked)
            return [ended for part in taken for ended in part]

        free = take_past_locked(choose, take_free, limit=limit)
        if refused:
            text = f"Ends for good whose messages have to wait: {len(refused)}, for {refused[0]}"
            say(log, logging.ERROR, "ledger.refused", text)
        return free
