"""Events to which nobody listened: they are counted by topic."""

from datetime import datetime
from typing import Final

from sqlalchemy import bindparam, insert, update

from ..schema.tables import topic_tallies
from ..schema.types import UtcDateTime
from ..transactions.database import StorePart, repeatable

_COUNT: Final = (
    update(topic_tallies)
    .where(topic_tallies.c.topic == bindparam("its_topic"))
    .values(
        no_listener=topic_tallies.c.no_listener + 1, last_at=bindparam("now", type_=UtcDateTime)
    )
)
_BEGIN: Final = insert(topic_tallies)


class UnheardEvents(StorePart):
    """The part of `AttemptStorePort` that counts them."""

    @repeatable
    def count_unheard(self, topic: str, *, now: datetime) -> None:
        with self._database.write("counting an event without a listener") as connection:
            if not connection.execute(_COUNT, {"its_topic": topic, "now": now}).rowcount:
                row = {"topic": topic, "no_listener": 1, "last_at": now}
                connection.execute(_BEGIN, row)  # whoever met us there is counted by a repetition
