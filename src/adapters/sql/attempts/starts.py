"""What the start of attempts writes: their executions, and a row for each of them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import attrs
from sqlalchemy import Connection, Select, and_, bindparam, delete, exists, insert, select, update

from cronhare.domain.execution import STARTABLE, Execution, State
from cronhare.domain.lifecycle import start_fence
from cronhare.domain.lifecycle.catching_up import CatchUp
from cronhare.domain.lifecycle.gates import gates_of
from cronhare.domain.lifecycle.transitions import is_held
from cronhare.ports.attempts import Busy, Refused, StartAnswer, StartRequest

from ..database import StorePart, repeatable_unless_locked
from ..dialect import Dialect
from ..gates.passing import GatedStarts, pass_gates
from ..gates.rows import MissingGates, make_gates
from ..isolation import Written, set_apart, write_each
from ..limits.judging import SpreadStarts
from ..rows.changes import Change, write_changes
from ..rows.executions import OWNED_BY_IDS, find_executions
from ..schema.tables import THESE, attempts, by_id, executions, outputs
from ..schema.types import UtcDateTime

_NOW = bindparam("now", type_=UtcDateTime)

_THIS_ATTEMPT = and_(
    attempts.c.execution_id == executions.c.id, attempts.c.attempt == executions.c.attempt
)
_RECORD = insert(attempts).from_select(
    ["execution_id", "attempt", "node", "started_at"],
    select(executions.c.id, executions.c.attempt, executions.c.owner, _NOW).where(
        THESE, ~exists().where(_THIS_ATTEMPT)
    ),
)
#: An execution was put back by hand, and its attempt has a row, perhaps output: both begin anew. A
#: duplicate row would refuse the starts of the whole batch.
_RECORD_ANEW = (
    update(attempts)
    .where(exists().where(_THIS_ATTEMPT, THESE))
    .values(
        node=bindparam("owner"),
        started_at=_NOW,
        **dict.fromkeys(
            (
                "finished_at",
                "ending",
                "exit_code",
                "signal",
                "pid",
                "error",
                "peak_memory",
                "cpu_seconds",
                "left_running",
            )
        ),
    )
)
_FORGET_OUTPUT = delete(outputs).where(
    exists().where(
        outputs.c.execution_id == executions.c.id, outputs.c.attempt == executions.c.attempt, THESE
    )
)


def write_starts(
    connection: Connection, dialect: Dialect, started: Sequence[Change], *, now: datetime, node: str
) -> None:
    """Write the starts of attempts, whose executions are locked, for *node*."""
    if not started:
        return
    write_changes(connection, dialect, started)
    ids = [before.id for before, _ in started]
    recorded = connection.execute(_RECORD, {"ids": ids, "now": now}).rowcount
    if recorded < len(ids):
        connection.execute(_RECORD_ANEW, {"ids": ids, "owner": node, "now": now})
        connection.execute(_FORGET_OUTPUT, {"ids": ids})


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
        def refused(request: StartRequest, why: Exception) -> Sequence[StartAnswer]:
            def still(found: Execution) -> bool:
                is_to_start = found.state in STARTABLE or is_held(found, node)
                return is_to_start and found.attempt == request.attempt

            set_apart(self._database, request.execution_id, str(why), now, still=still)
            return [Refused(str(why))]

        return write_each(
            requests,
            partial(self._start, now=now, node=node, lease=lease, catch_up=catch_up),
            refused=refused,
            locked=lambda _: [Busy()],
        )

    def _start(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        catch_up: CatchUp | None,
    ) -> Written[StartAnswer]:
        """Start these; what has to pass gates that have no row yet is `Busy` once they are made."""
        start = partial(
            self._start_these, requests, now=now, node=node, lease=lease, catch_up=catch_up
        )
        try:
            return start(without=frozenset())
        except MissingGates as missing:
            make_gates(self._database, missing.names, now)
        try:
            return start(without=frozenset())
        except MissingGates as missing:  # somebody keeps them from being made
            return start(without=frozenset(missing.names))

    @repeatable_unless_locked
    def _start_these(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        catch_up: CatchUp | None,
        without: Collection[str],
    ) -> Written[StartAnswer]:
        dialect = self._database.dialect
        with self._database.write("starting attempts") as connection:
            ids = {request.execution_id for request in requests}
            found = find_executions(connection, _UNLOCKED, ids, read=dialect.read)
            busy = locked_elsewhere(connection, ids - found.keys())
            judged = _judge_all(requests, found, busy, node=node, now=now, until=now + lease)
            spread = SpreadStarts(connection, judged.started, catch_up, now)
            gated = GatedStarts(started=spread.started)
            if any(gates_of(before) for before, _ in spread.started):  # nearly always there is none
                gated = pass_gates(connection, dialect, spread.started, now, without)
            spread.keep(dialect, busy=gated.busy)
            kept_back, started = [*gated.held, *spread.deferred], gated.started
            write_changes(connection, dialect, [*judged.others, *kept_back])
            write_starts(connection, dialect, started, now=now, node=node)
            answers = [gated.answer_of(spread.answer_of(answer)) for answer in judged.answers]
            return Written(answers, changed=bool(started or kept_back))


@attrs.frozen(kw_only=True)
class _Judged:
    """What the start fence says: which attempts *started* for the first time, and *others*.

    Those were started before, and their leases begin anew; or they have expired.
    """

    answers: Sequence[StartAnswer]
    started: Sequence[Change]
    others: Sequence[Change]


def _judge_all(
    requests: Sequence[StartRequest],
    found: Mapping[int, Execution],
    busy: Collection[int],
    *,
    node: str,
    now: datetime,
    until: datetime,
) -> _Judged:
    answers: list[StartAnswer] = []
    after: dict[int, Execution] = {}
    for request in requests:
        if request.execution_id in busy:
            answers.append(Busy())
            continue
        known = after.get(request.execution_id) or found.get(request.execution_id)
        answer = _judge(request, known, node=node, now=now, until=until)
        if isinstance(answer, Execution):
            after[answer.id] = answer
            if answer.state is State.SKIPPED:
                answer = Refused(str(answer.last_error))
        answers.append(answer)
    started: list[Change] = []
    others: list[Change] = []
    for id_, one in after.items():
        before = found[id_]
        is_new = not is_held(before, node) and one.state is not State.SKIPPED
        (started if is_new else others).append((before, one))
    return _Judged(answers=answers, started=started, others=others)


def _judge(
    request: StartRequest, execution: Execution | None, *, node: str, now: datetime, until: datetime
) -> Execution | Refused:
    if execution is None:
        return Refused(f"execution {request.execution_id} is unknown", unknown=True)
    after = start_fence.start(
        execution, attempt=request.attempt, nacks=request.nacks, node=node, now=now, until=until
    )
    return Refused(after) if isinstance(after, str) else after
