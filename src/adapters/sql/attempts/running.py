"""Running attempts: their leases are renewed, and what they have written is kept meanwhile."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import bindparam, update

from cronhare.domain.lifecycle.transitions import is_held, may_finish
from cronhare.ports import runner
from cronhare.ports.attempts import Renewal

from ..isolation import Written, set_apart, write_each
from ..mapping.outputs import keep_outputs, output_values
from ..schema.tables import by_id, executions
from ..schema.types import UtcDateTime
from ..transactions.database import StorePart, repeatable_unless_locked
from .standing import STANDING, UNLOCKED_STANDING

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
        """See `AttemptStorePort.renew`. What cannot be renewed is no longer held."""

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
        """See `AttemptStorePort.keep_written`. What is refused is left for the end to judge."""

        @repeatable_unless_locked
        def keep(part: Sequence[runner.Written]) -> Written[None]:
            ids = [one.execution_id for one in part]
            with self._database.write("keeping what attempts have written") as connection:
                # Locked, so that an end, which replaces the output, comes last.
                rows = connection.execute(UNLOCKED_STANDING, {"ids": ids})
                held = {row.id: row for row in rows if is_held(row, node)}
                kept = [
                    output_values(one.execution_id, one.attempt, one, as_of=now)
                    for one in part
                    if (row := held.get(one.execution_id))
                    and may_finish(row, one.attempt, node=node)
                ]
                keep_outputs(connection, self._database.dialect, kept)
            return Written((), changed=bool(kept))

        def left(_: runner.Written, __: Exception) -> Sequence[None]:
            return ()

        write_each(written, keep, refused=left, doubted=left, locked=lambda _: ())
