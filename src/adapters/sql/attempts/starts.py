"""Starting attempts: a batch is read and judged, then written with one statement per table."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, exists, insert, select, update

from cronhare.domain.execution import STARTABLE, Execution, State
from cronhare.domain.lifecycle import start_fence
from cronhare.domain.lifecycle.catching_up import CatchUp
from cronhare.domain.lifecycle.gates import gates_of
from cronhare.domain.lifecycle.transitions import is_held
from cronhare.ports.attempts import Busy, Refused, StartAnswer, StartRequest

from ..database import StorePart, repeatable_unless_locked
from ..gates import GatedStarts, MissingGates, make_gates, pass_gates
from ..isolation import Written, set_apart, write_each
from ..limits import SpreadStarts
from ..rows.changes import Change, write_changes
from ..rows.executions import IS_LAST_ATTEMPT, IS_LAST_OUTPUT, OWNED_BY_IDS, find_executions
from ..schema.tables import THESE, attempts, by_id, executions, outputs
from ..schema.types import UtcDateTime

_NOW = bindparam("now", type_=UtcDateTime)

_RECORD = insert(attempts).from_select(
    ["execution_id", "attempt", "node", "started_at"],
    select(executions.c.id, executions.c.attempt, executions.c.owner, _NOW).where(
        THESE, ~exists().where(IS_LAST_ATTEMPT)
    ),
)
#: A person put an execution back whose attempt has a row, and perhaps output: both begin anew. A
#: second row would be a duplicate key, and refuse the whole batch.
_RECORD_ANEW = (
    update(attempts)
    .where(exists().where(IS_LAST_ATTEMPT, THESE))
    .values(
        node=bindparam("owner"),
        started_at=_NOW,
        **{column.name: None for column in attempts.c if column.nullable},
    )
)
_FORGET_OUTPUT = delete(outputs).where(exists().where(IS_LAST_OUTPUT, THESE))

_IDS = by_id(select(executions.c.id))

STANDING: Select[Any] = by_id(
    select(
        executions.c.id,
        executions.c.state,
        executions.c.owner,
        executions.c.lease_until,
        executions.c.attempt,
        executions.c.version,
        executions.c.deaths,
        executions.c.cancel_requested,
    )
)
UNLOCKED_STANDING = STANDING.with_for_update(skip_locked=True)


def locked_elsewhere(connection: Connection, not_found: Collection[int]) -> Collection[int]:
    """Give the ids that exist although a look with `SKIP LOCKED` has not found them."""
    if not not_found:
        return ()
    return frozenset(connection.scalars(_IDS, {"ids": list(not_found)}))


_UNLOCKED = OWNED_BY_IDS.with_for_update(skip_locked=True)


class AttemptStarts(StorePart):
    """The part of `AttemptStorePort` that starts attempts."""

    def start(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        catch_up: CatchUp | None = None,
    ) -> Sequence[StartAnswer]:
        dialect = self._database.dialect

        @repeatable_unless_locked
        def start_these(
            part: Sequence[StartRequest], without: Collection[str] = ()
        ) -> Written[StartAnswer]:
            with self._database.write("starting attempts") as connection:
                ids = {request.execution_id for request in part}
                found = find_executions(connection, _UNLOCKED, ids, read=dialect.read)
                busy = locked_elsewhere(connection, ids - found.keys())
                answers, allowed, others = _judge(
                    part, found, busy, node=node, now=now, until=now + lease
                )
                spread = SpreadStarts(connection, allowed, catch_up, now)
                gated = GatedStarts(started=spread.started)
                if any(gates_of(before) for before, _ in spread.started):  # hardly ever
                    gated = pass_gates(connection, spread.started, without)
                spread.keep(dialect, busy=gated.busy)
                kept_back = [*gated.held, *spread.deferred]
                write_changes(connection, dialect, [*gated.started, *others, *kept_back])
                if started := [before.id for before, _ in gated.started]:
                    recorded = connection.execute(_RECORD, {"ids": started, "now": now}).rowcount
                    if recorded < len(started):
                        anew = {"ids": started, "owner": node, "now": now}
                        connection.execute(_RECORD_ANEW, anew)
                        connection.execute(_FORGET_OUTPUT, {"ids": started})
                answers = [gated.answer_of(spread.answer_of(answer)) for answer in answers]
                return Written(answers, changed=bool(started or kept_back))

        def start_at_gates(part: Sequence[StartRequest]) -> Written[StartAnswer]:
            try:
                return start_these(part)
            except MissingGates as missing:
                make_gates(self._database, missing.names, now)
            try:
                return start_these(part)
            except MissingGates as missing:  # somebody keeps them from being made
                return start_these(part, without=missing.names)

        def refused(request: StartRequest, why: Exception) -> Sequence[StartAnswer]:
            def still(found: Execution) -> bool:
                is_to_start = found.state in STARTABLE or is_held(found, node)
                return is_to_start and found.attempt == request.attempt

            set_apart(self._database, request.execution_id, str(why), now, still=still)
            return [Refused(str(why))]

        return write_each(requests, start_at_gates, refused=refused, locked=lambda _: [Busy()])


def _judge(
    requests: Sequence[StartRequest],
    found: Mapping[int, Execution],
    busy: Collection[int],
    *,
    node: str,
    now: datetime,
    until: datetime,
) -> tuple[list[StartAnswer], list[Change], list[Change]]:
    """Ask the start fence: gives the answers, the starts it allows, and other changes.

    Those are new leases of what this node has started before, and executions that have expired.
    """
    answers: list[StartAnswer] = []
    after: dict[int, Execution] = {}
    for request in requests:
        id_ = request.execution_id
        known = after.get(id_) or found.get(id_)
        if id_ in busy:
            answers.append(Busy())
        elif known is None:
            answers.append(Refused(f"execution {id_} is unknown", unknown=True))
        else:
            one = start_fence.start(
                known, attempt=request.attempt, nacks=request.nacks, node=node, now=now, until=until
            )
            if isinstance(one, str):
                answers.append(Refused(one))
                continue
            after[id_] = one
            has_expired = one.state is State.SKIPPED
            answers.append(Refused(str(one.last_error)) if has_expired else one)
    started: list[Change] = []
    others: list[Change] = []
    for id_, one in after.items():
        is_new = not is_held(found[id_], node) and one.state is not State.SKIPPED
        (started if is_new else others).append((found[id_], one))
    return answers, started, others
