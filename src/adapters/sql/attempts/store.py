"""Attempts in SQL: the store, attempts that run, foreign messages, and messages that came again."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import bindparam, delete, insert, select, update

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.claims import NotToBeRun
from cronhare.domain.lifecycle.transitions import is_held, may_finish
from cronhare.domain.messages.messages import TaskMessage
from cronhare.domain.retries.redeliveries import KEPT_FOR, Hold, Holder
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports import runner
from cronhare.ports.attempts import Busy, Refused, Renewal
from cronhare.ports.errors import LedgerRefused

from ..claims.plans import claim_by_hand, find_by_key
from ..database import Store, StorePart, repeatable, repeatable_unless_locked
from ..dialect import Locked
from ..isolation import Written, set_apart, write_each
from ..rows.executions import keep_outputs, output_values
from ..rows.own import OwnTable
from ..schema.tables import by_id, executions, holds, nodes, topic_tallies
from ..schema.types import UtcDateTime
from .ends import AttemptEnds
from .starts import STANDING, UNLOCKED_STANDING, AttemptStarts

_RENEW = (
    by_id(update(executions))
    # As `transitions.renew`, without a look at whole rows.
    .values(lease_until=bindparam("until", type_=UtcDateTime), version=executions.c.version + 1)
)


class RunningAttempts(StorePart):
    """The part of `AttemptStorePort` that is about attempts which run."""

    def renew(
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        @repeatable_unless_locked
        def renew(part: Sequence[int]) -> Written[Renewal]:
            with self._database.write("renewing leases") as connection:
                seen = connection.execute(UNLOCKED_STANDING, {"ids": part}).all()
                rows = [row for row in seen if is_held(row, node)]
                held = frozenset(row.id for row in rows)
                if held:
                    connection.execute(_RENEW, {"ids": list(held), "until": now + lease})
                rest = list(set(part).difference(row.id for row in seen))
                busy = connection.execute(STANDING, {"ids": rest}).all() if rest else ()
            renewal = Renewal(
                held=held,
                cancel_requested=frozenset(row.id for row in rows if row.cancel_requested),
                busy=frozenset(row.id for row in busy if is_held(row, node)),
            )
            return Written([renewal], changed=bool(held))

        def refused(id_: int, why: Exception) -> Sequence[Renewal]:
            set_apart(self._database, id_, str(why), now, still=lambda seen: is_held(seen, node))
            return ()

        def locked(id_: int) -> Sequence[Renewal]:
            return [Renewal(held=frozenset(), cancel_requested=frozenset(), busy=frozenset({id_}))]

        renewals = write_each(list(execution_ids), renew, refused=refused, locked=locked)
        return Renewal(
            held=frozenset().union(*(each.held for each in renewals)),
            cancel_requested=frozenset().union(*(each.cancel_requested for each in renewals)),
            busy=frozenset().union(*(each.busy for each in renewals)),
        )

    def keep_written(self, written: Sequence[runner.Written], *, now: datetime, node: str) -> None:
        @repeatable_unless_locked
        def keep(part: Sequence[runner.Written]) -> Written[None]:
            ids = [one.execution_id for one in part]
            with self._database.write("keeping what attempts have written") as connection:
                # Locked, so that an end, which replaces the output, comes last.
                rows = connection.execute(UNLOCKED_STANDING, {"ids": ids})
                seen = {row.id: row for row in rows}
                kept = [
                    output_values(one.execution_id, one.attempt, one, as_of=now)
                    for one in part
                    if (row := seen.get(one.execution_id))
                    and may_finish(row, one.attempt, node=node)
                ]
                keep_outputs(connection, self._database.dialect, kept)
            return Written((), changed=bool(kept))

        def left(_: runner.Written, __: Exception) -> Sequence[None]:
            return ()

        write_each(written, keep, refused=left, doubted=left, locked=lambda _: ())


_COUNT: Final = (
    update(topic_tallies)
    .where(topic_tallies.c.topic == bindparam("its_topic"))
    .values(
        no_listener=topic_tallies.c.no_listener + 1, last_at=bindparam("now", type_=UtcDateTime)
    )
)


#: No message is delivered to so many nodes within a day.
MOST: Final = 1_000

_OF: Final = holds.c.message == bindparam("message_is")
_OLD: Final = delete(holds).where(_OF, holds.c.at < bindparam("before", type_=UtcDateTime))
_MINE: Final = delete(holds).where(_OF, holds.c.node == bindparam("node_is"))
_OTHERS: Final = (
    select(holds, nodes.c.seen_at)
    .outerjoin(nodes, nodes.c.name == holds.c.node)
    .where(_OF, holds.c.node != bindparam("node_is"))
    .order_by(holds.c.at.desc())
    .limit(MOST)
)


_HOLD: Final = OwnTable(holds, seen_at=datetime | None)


class SqlRedeliveryStore(Store):
    """Satisfies `RedeliveryStorePort`. Each method is one transaction."""

    @repeatable
    def hold(self, message: str, *, holder: Holder, now: datetime) -> Sequence[Hold]:
        mine = {"message_is": message, "node_is": holder.node}
        row = {
            "message": message,
            "node": holder.node,
            "host": holder.host,
            "boot": holder.boot,
            "at": now,
        }
        with self._database.write("noting a message that came again") as connection:
            connection.execute(_OLD, {"message_is": message, "before": now - KEPT_FOR})
            connection.execute(_MINE, mine)
            found = connection.execute(_OTHERS, mine).all()
            connection.execute(insert(holds), row)
        return [
            Hold(
                holder=Holder(node=each.node, host=each.host, boot=each.boot),
                at=each.at,
                seen_at=each.seen_at,
            )
            for each in _HOLD.readable(reversed(found))
        ]

    @repeatable
    def let_go(self, message: str, *, node: str) -> None:
        with self._database.write("noting that a message is at hand no more") as connection:
            connection.execute(_MINE, {"message_is": message, "node_is": node})


class SqlAttemptStore(Store, AttemptStarts, RunningAttempts, AttemptEnds):
    """Satisfies `AttemptStorePort`."""

    def adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused | Busy:
        @repeatable_unless_locked
        def find_or_claim() -> Execution:
            with self._database.write("adopting a message") as connection:
                return find_by_key(connection, message.scheduler_id, key) or claim_by_hand(
                    connection,
                    self._database.dialect.hurried(),  # it is asked again; others wait behind it
                    message.scheduler_id,
                    key=key,
                    now=now,
                    node=node,
                    task=TaskRef(message.type, message.id),
                    params=message.params_scheduler,
                    queue=queue,
                    deaths=deaths,
                )

        try:
            return find_or_claim()
        except Locked:
            return Busy()
        except (LedgerRefused, NotToBeRun) as refusal:
            return Refused(str(refusal))

    @repeatable
    def count_unheard(self, topic: str, *, now: datetime) -> None:
        with self._database.write("counting an event without a listener") as connection:
            if not connection.execute(_COUNT, {"its_topic": topic, "now": now}).rowcount:
                row = {"topic": topic, "no_listener": 1, "last_at": now}
                connection.execute(insert(topic_tallies), row)  # a duplicate key is repeated
