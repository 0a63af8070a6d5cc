"""Recoveries: a schedule that had failed has succeeded again."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, delete, select, update

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.events import Event, OutboxRow, OutboxState

from ..mapping.execution_rows import EXECUTION, executions_of
from ..schema.tables import executions, outbox
from ..schema.types import UtcDateTime
from ..transactions.database import StorePart, repeatable
from .rows import read_outbox_rows

_IS_EXPECTED: Final = outbox.c.state == OutboxState.EXPECTED.value
_EXPECTED: Final = (
    select(outbox)
    .where(
        _IS_EXPECTED,
        outbox.c.source == bindparam("source"),
        outbox.c.id > bindparam("after"),
    )
    .order_by(outbox.c.id)
    .limit(bindparam("limit"))
)
_SUCCESS: Final = (
    EXECUTION.where(
        executions.c.scheduler_id == bindparam("scheduler"),
        executions.c.finished_at > bindparam("after", type_=UtcDateTime),
        executions.c.finished_at <= bindparam("by", type_=UtcDateTime),
        executions.c.state == State.SUCCEEDED.value,
    )
    .order_by(executions.c.finished_at, executions.c.id)
    .limit(1)
)
_TOLD: Final = select(outbox.c.id).where(
    outbox.c.event_key == bindparam("key"), outbox.c.target == bindparam("target")
)
_STILL: Final = (
    select(outbox.c.id)
    .where(
        outbox.c.id == bindparam("this"),
        _IS_EXPECTED,
        # A bad end that was announced meanwhile is after the success that was found.
        outbox.c.occurred_at == bindparam("judged", type_=UtcDateTime),
    )
    .with_for_update(skip_locked=True)
)
_TELL: Final = (
    update(outbox)
    .where(outbox.c.id == bindparam("this"))
    .values(
        event_key=bindparam("key"),
        occurred_at=bindparam("at", type_=UtcDateTime),
        execution_id=bindparam("execution"),
        payload=bindparam("document"),
        state=OutboxState.WAITING.value,
        next_try_at=bindparam("now", type_=UtcDateTime),
    )
)
_DELETE: Final = delete(outbox).where(outbox.c.id == bindparam("this"))


class Recoveries(StorePart):
    """The part of `EventStorePort` that is about recoveries."""

    @repeatable
    def expected(self, *, source: str, after: int, limit: int) -> Sequence[OutboxRow]:
        with self._database.read("looking for recoveries") as connection:
            rows = connection.execute(_EXPECTED, {"source": source, "after": after, "limit": limit})
            return read_outbox_rows(rows)

    @repeatable
    def first_success(
        self, scheduler_id: int, *, after: datetime, by: datetime
    ) -> Execution | None:
        with self._database.read("looking for recoveries") as connection:
            asked = {"scheduler": scheduler_id, "after": after, "by": by}
            rows = connection.execute(_SUCCESS, asked)
            return next(iter(executions_of(connection, rows)), None)

    @repeatable
    def recover(self, expected: OutboxRow, event: Event, *, now: datetime) -> bool:
        this: dict[str, Any] = {"this": expected.id}
        with self._database.write("telling of a recovery") as connection:
            if connection.scalar(_STILL, this | {"judged": expected.occurred_at}) is None:
                return False
            place = {"key": event.id, "target": expected.target}
            if connection.scalar(_TOLD, place) is not None:
                connection.execute(_DELETE, this)
                return False
            told = {
                "key": event.id,
                "at": event.at,
                "execution": event.execution_id,
                "document": event.document,
                "now": now,
            }
            connection.execute(_TELL, this | told)
            return True
