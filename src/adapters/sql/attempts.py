"""Attempts in SQL: the store, how they start, those that run, and foreign messages."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import bindparam, func, insert, select, update

from cronhare.domain.execution import STARTABLE, Execution, State
from cronhare.domain.lifecycle import transitions
from cronhare.domain.lifecycle.claims import NotToBeRun
from cronhare.domain.lifecycle.gates import gates_of
from cronhare.domain.lifecycle.retry_limits import CatchUp
from cronhare.domain.lifecycle.transitions import is_held, may_finish
from cronhare.domain.messages import TaskMessage
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports import LedgerRefused, runner
from cronhare.ports.attempts import Busy, Refused, Renewal, StartAnswer, StartRequest

from .attempt_ends import STANDING, UNLOCKED_STANDING, AttemptEnds, locked_elsewhere
from .claims.plans import claim_by_hand, find_by_key
from .database import Store, repeatable, repeatable_unless_locked
from .dialect import Locked, hurry
from .gates import GatedStarts, MissingGates, make_gates, pass_gates
from .limits import SpreadStarts
from .tables.executions import (
    OWNED_BY_IDS,
    find_executions,
    keep_outputs,
    output_values,
)
from .tables.tables import THESE, attempts, by_id, executions, topic_tallies
from .tables.types import moment_of
from .writing import Change, Written, set_apart, write_changes, write_each

_RUN: Final = executions.c

_NOW = moment_of("now")

_RECORD = insert(attempts).from_select(
    ["execution_id", "attempt", "node", "started_at"],
    select(_RUN.id, _RUN.attempt, _RUN.owner, _NOW).where(THESE),
)

_UNLOCKED = OWNED_BY_IDS.with_for_update(skip_locked=True)


#: The index (scheduler_id, finished_at) is read from its end. Of so many that ended last the latest
#: due counts: a retry may succeed after later runs have.
_LATEST: Final = 20
_LAST_SUCCESSES = (
    select(_RUN.due_at)
    .where(
        _RUN.scheduler_id == bindparam("scheduler"),
        _RUN.finished_at.is_not(None),
        _RUN.state == State.SUCCEEDED.value,
        _RUN.due_at < moment_of("due"),
    )
    .order_by(_RUN.finished_at.desc())
    .limit(_LATEST)
    .with_hint(executions, "FORCE INDEX (ix_execution_open)", "mysql")
    .subquery()
)
_LAST_SUCCESS = select(func.max(_LAST_SUCCESSES.c.due_at))

_RENEW = (
    by_id(update(executions))
    # As `transitions.renew`, without a look at whole rows.
    .values(lease_until=moment_of("until"), version=_RUN.version + 1)
)

_COUNT: Final = (
    update(topic_tallies)
    .where(topic_tallies.c.topic == bindparam("its_topic"))
    .values(no_listener=topic_tallies.c.no_listener + 1, last_at=moment_of("now"))
)


class SqlAttemptStore(Store, AttemptEnds):
    """Satisfies `AttemptStorePort`: how attempts start, those that run, and foreign messages."""

    def start(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        catch_up: CatchUp | None = None,
    ) -> Sequence[StartAnswer]:
        @repeatable_unless_locked
        def start_these(
            part: Sequence[StartRequest], without: Collection[str] = ()
        ) -> Written[StartAnswer]:
            with self._database.write("starting attempts") as connection:
                ids = {request.execution_id for request in part}
                found = find_executions(
                    connection, _UNLOCKED, ids, read=self._database.dialect.read
                )
                busy = locked_elsewhere(connection, ids - found.keys())
                answers, allowed, others = _judge(
                    part, found, busy, node=node, now=now, until=now + lease
                )
                spread = SpreadStarts(connection, allowed, catch_up, now)
                gated = GatedStarts(started=spread.started)
                if any(gates_of(before) for before, _ in spread.started):  # hardly ever
                    gated = pass_gates(connection, spread.started, without)
                spread.keep(busy=gated.busy)
                kept_back = [*gated.held, *spread.deferred]
                write_changes(connection, [*gated.started, *others, *kept_back])
                if started := [before.id for before, _ in gated.started]:
                    connection.execute(_RECORD, {"ids": started, "now": now})
                instead: dict[int, StartAnswer] = {**spread.instead, **gated.instead}
                answers = [
                    instead.get(one.id, one) if isinstance(one, Execution) else one
                    for one in answers
                ]
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

    @repeatable
    def previous_success(self, execution: Execution) -> datetime | None:
        asked = {"scheduler": execution.scheduler_id, "due": execution.due_at}
        with self._database.read("looking for the last success") as connection:
            found: datetime | None = connection.scalar(_LAST_SUCCESS, asked)
            return found

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
                keep_outputs(connection, kept)
            return Written((), changed=bool(kept))

        write_each(written, keep, refused=lambda *_: (), locked=lambda _: ())

    def adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused | Busy:
        @repeatable_unless_locked
        def find_or_claim() -> Execution:
            with self._database.write("adopting a message") as connection:
                hurry(connection)  # it is asked again; others wait behind it
                return find_by_key(connection, message.scheduler_id, key) or claim_by_hand(
                    connection,
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
            one = transitions.start(
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
