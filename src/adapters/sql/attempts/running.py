"""Running attempts: their leases are renewed, and what they have written is kept meanwhile."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import bindparam, update

from cronhare.domain.lifecycle.transitions import is_held, may_finish
from cronhare.ports.attempts import Renewal
from cronhare.ports.ledger import LedgerRefused
from cronhare.ports.runner import Written

from ..isolation.bisection import BatchResult, OnLocked
from ..isolation.quarantine import quarantine_and_log
from ..isolation.refusals import bisect_and_judge, bisect_batch
from ..isolation.suspects import Suspects
from ..mapping.outputs import keep_outputs, output_values
from ..schema.tables import by_id, executions
from ..schema.types import UtcDateTime
from ..transactions.database import Database, StorePart, repeatable
from .standing import STANDING, UNLOCKED_STANDING

_RENEW = (
    by_id(update(executions))
    # As `transitions.renew`, without a look at whole rows.
    .values(lease_until=bindparam("until", type_=UtcDateTime), version=executions.c.version + 1)
)


class RunningAttempts(StorePart):
    """The part of `AttemptStorePort` that is about attempts which run."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._refused_leases = Suspects()
        self._locked_leases = OnLocked[int, Renewal](lambda id_: _renewal(busy={id_}))
        self._locked_outputs = OnLocked[Written, None](lambda _: None)

    def renew(
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        """See `AttemptStorePort.renew`. What cannot be renewed is no longer held."""

        def alone(id_: int, refusal: LedgerRefused) -> Renewal:
            quarantine_and_log(
                self._database, id_, str(refusal), now, still=lambda found: is_held(found, node)
            )
            return _renewal()

        renewals = bisect_and_judge(
            list(execution_ids),
            partial(self._renew, now=now, node=node, lease=lease),
            alone=alone,
            suspects=self._refused_leases,
            on_locked=self._locked_leases,
            id_of=lambda id_: id_,
            kinds={},  # they are all alike
        )
        return Renewal(
            held=frozenset().union(*(each.held for each in renewals)),
            cancel_requested=frozenset().union(*(each.cancel_requested for each in renewals)),
            busy=frozenset().union(*(each.busy for each in renewals)),
        )

    @repeatable
    def _renew(
        self, execution_ids: Sequence[int], *, now: datetime, node: str, lease: timedelta
    ) -> BatchResult[Renewal]:
        with self._database.write("renewing leases") as connection:
            seen = connection.execute(UNLOCKED_STANDING, {"ids": execution_ids}).all()
            rows = [row for row in seen if is_held(row, node)]
            held = frozenset(row.id for row in rows)
            if held:
                connection.execute(_RENEW, {"ids": list(held), "until": now + lease})
            rest = list(set(execution_ids).difference(row.id for row in seen))
            busy = connection.execute(STANDING, {"ids": rest}).all() if rest else ()
        renewal = Renewal(
            held=held,
            cancel_requested=frozenset(row.id for row in rows if row.cancel_requested),
            busy=frozenset(row.id for row in busy if is_held(row, node)),
        )
        return BatchResult([renewal], held)

    def keep_written(self, written: Sequence[Written], *, now: datetime, node: str) -> None:
        """See `AttemptStorePort.keep_written`. What is refused is left for the end to judge."""

        @repeatable
        def keep(part: Sequence[Written]) -> BatchResult[None]:
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
                return BatchResult((), held.keys())

        bisect_batch(
            written, keep, alone=lambda _one, _refusal: None, on_locked=self._locked_outputs
        )


def _renewal(*, busy: Collection[int] = ()) -> Renewal:
    """Renew none."""
    return Renewal(held=frozenset(), cancel_requested=frozenset(), busy=frozenset(busy))
