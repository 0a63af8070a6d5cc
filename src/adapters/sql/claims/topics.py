"""What new executions are events of: apart, as a column of each insert would cost the others."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, bindparam, update

from cronhare.domain.execution import Execution

from ..dialect import Dialect
from ..schema.tables import executions

_KEEP: Final = (
    update(executions)
    .where(executions.c.id == bindparam("row_id"))
    .values(topic=bindparam("its_topic"), no_listener=bindparam("unheard"))
)


def keep_topics(connection: Connection, dialect: Dialect, inserted: Iterable[Execution]) -> None:
    """Note the topics of new executions; where none has any nothing is written."""
    rows = [
        {"row_id": one.id, "its_topic": one.topic, "unheard": one.no_listener}
        for one in inserted
        if one.no_listener is not None
    ]
    if rows:
        dialect.update_many(connection, _KEEP, rows)
