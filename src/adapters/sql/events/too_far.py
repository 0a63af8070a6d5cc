"""What waits for a time that was noted by a clock ahead, which has been set right since."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, select, update

from cronhare.domain.lifecycle.events import OutboxState

from ..schema.tables import failed_tasks, outbox
from ..schema.types import UtcDateTime
from ..transactions.database import StorePart, repeatable

#: Rows of each kind that one call brings back.
MOST: Final = 1_000

_FARTHEST: Final = bindparam("farthest", type_=UtcDateTime)
_NOW: Final = bindparam("now", type_=UtcDateTime)
_IDS: Final[Any] = bindparam("ids", expanding=True)
_KINDS: Final = (
    (
        select(outbox.c.id).where(
            outbox.c.state == OutboxState.WAITING.value, outbox.c.next_try_at > _FARTHEST
        ),
        update(outbox).where(outbox.c.id.in_(_IDS)).values(next_try_at=_NOW),
    ),
    (
        select(outbox.c.id).where(
            outbox.c.state == OutboxState.EXPECTED.value, outbox.c.occurred_at > _NOW
        ),
        update(outbox).where(outbox.c.id.in_(_IDS)).values(occurred_at=_NOW),
    ),
    (
        select(failed_tasks.c.id).where(failed_tasks.c.event_at > _FARTHEST),
        update(failed_tasks).where(failed_tasks.c.id.in_(_IDS)).values(event_at=_NOW),
    ),
)


class TooFar(StorePart):
    """The part of `EventStorePort` that brings back what waits for too long."""

    @repeatable
    def regain(self, *, farthest: datetime, now: datetime) -> int:
        regained = 0
        with self._database.write("regaining events") as connection:
            for find, bring_back in _KINDS:
                found = find.limit(MOST).with_for_update(skip_locked=True)
                if ids := list(connection.scalars(found, {"farthest": farthest, "now": now})):
                    connection.execute(bring_back, {"ids": ids, "now": now})
                regained += len(ids)
        return regained
