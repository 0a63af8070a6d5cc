"""Attempts in SQL: a batch is read and judged, then written with one statement per table."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, Row, bindparam, select, update

from cronhare.domain import fence
from cronhare.domain.execution import Execution, State
from cronhare.domain.messages import TaskMessage
from cronhare.domain.outcome import Outcome, TaskError
from cronhare.domain.retry import Quarantine
from cronhare.domain.task import TaskRef
from cronhare.ports.attempts import Finish, Refused, Renewal, Start, Superseded
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerRefused
from cronhare.ports.runner import Ran, Written

from .beginnings import write_beginnings
from .claiming import NotToBeRun, claim_by_hand, find_by_key
from .database import Database, repeatable
from .endings import write_endings
from .output import keep_outputs, output_values
from .refusals import by_halves
from .rows import BY_IDS, find_executions, is_in
from .setting_apart import set_apart_refused
from .tables import attempts, executions
from .types import UtcDateTime

_STANDING = select(
    executions.c.id,
    executions.c.state,
    executions.c.owner,
    executions.c.attempt,
    executions.c.version,
    executions.c.cancel_requested,
).where(executions.c.id.in_(bindparam("ids", expanding=True)))
_HELD = (
    executions.c.id.in_(bindparam("ids", expanding=True)),
    is_in(State.RUNNING),
    executions.c.owner == bindparam("node"),
)
_RENEW = (
    update(executions)
    .where(*_HELD)
    # The version tells `give_up` of a renewal that changed nothing else.
    .values(lease_until=bindparam("until", type_=UtcDateTime), version=executions.c.version + 1)
)
_RENEWED = select(executions.c.id, executions.c.cancel_requested).where(*_HELD)
_NUMBER_OF_HELD = select(executions.c.id, executions.c.attempt).where(*_HELD)
_RECORDED = (
    select(
        attempts.c.execution_id,
        attempts.c.attempt,
        attempts.c.ending,
        executions.c.state,
        executions.c.attempt.label("due"),
    )
    .join(executions, executions.c.id == attempts.c.execution_id)
    .where(
        attempts.c.execution_id.in_(bindparam("ids", expanding=True)),
        attempts.c.node == bindparam("node"),
    )
)


class SqlAttemptStore:
    """Satisfies `AttemptStorePort`. What has a method here is one transaction."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """See `Database`."""
        self._database = Database(engine, clock)
        self._by_ids = self._database.vendor.held(BY_IDS)
        self._standing = self._database.vendor.held(_STANDING)

    def start(
        self, wishes: Sequence[Start], *, now: datetime, node: str, lease: timedelta
    ) -> Sequence[Execution | Refused]:
        """See `AttemptStorePort.start`."""

        def alone(wish: Start, refusal: LedgerRefused) -> Refused:
            set_apart_refused(self._database, wish.execution_id, str(refusal), now)
            return Refused(str(refusal))

        ask = partial(self._start, now=now, node=node, lease=lease)
        return by_halves(wishes, ask, alone=alone)

    @repeatable
    def _start(
        self, wishes: Sequence[Start], *, now: datetime, node: str, lease: timedelta
    ) -> Sequence[Execution | Refused]:
        with self._database.write("starting attempts") as connection:
            ids = {wish.execution_id for wish in wishes}
            found = find_executions(connection, self._by_ids, ids, read=self._database.vendor.read)
            answers: list[Execution | Refused] = []
            started: dict[int, Execution] = {}
            for wish in wishes:
                known = started.get(wish.execution_id) or found.get(wish.execution_id)
                answer = _judge(wish, known, node=node, now=now, until=now + lease)
                if isinstance(answer, Execution):
                    started[answer.id] = answer
                answers.append(answer)
            held = {id_ for id_, one in found.items() if fence.is_held(one, node)} & started.keys()
            if held:
                asked = {"ids": list(held), "node": node, "until": now + lease}
                connection.execute(_RENEW, asked)
            fresh = [one for id_, one in started.items() if id_ not in held]
            write_beginnings(connection, fresh, now=now, node=node, lease_until=now + lease)
            return answers

    def finish(
        self, finishes: Sequence[Finish], *, now: datetime, node: str
    ) -> Sequence[State | Superseded]:
        """See `AttemptStorePort.finish`."""
        ask = partial(self._finish, now=now, node=node)
        return by_halves(finishes, ask, alone=partial(self._end_refused, ask, now))

    @repeatable
    def _finish(
        self, finishes: Sequence[Finish], *, now: datetime, node: str
    ) -> Sequence[State | Superseded]:
        def is_ours(row: Row[Any], finish: Finish) -> bool:
            return bool(row.owner == node and row.attempt == finish.execution.attempt)

        with self._database.write("recording results") as connection:
            answers = self._end(connection, finishes, is_ours, now)
            return _answered_again(connection, finishes, answers, node)

    def give_up(self, finishes: Sequence[Finish], *, now: datetime) -> Sequence[State | Superseded]:
        """See `AttemptStorePort.give_up`."""
        ask = partial(self._give_up, now=now)
        return by_halves(finishes, ask, alone=partial(self._end_refused, ask, now))

    @repeatable
    def _give_up(
        self, finishes: Sequence[Finish], *, now: datetime
    ) -> Sequence[State | Superseded]:
        def is_as_found(row: Row[Any], finish: Finish) -> bool:
            return bool(row.version == finish.execution.version)

        with self._database.write("giving up lost attempts") as connection:
            return self._end(connection, finishes, is_as_found, now)

    def renew(
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        """See `AttemptStorePort.renew`. What cannot be renewed is no longer held."""

        def ask(ids: Sequence[int]) -> Sequence[Renewal]:
            return [self._renew(ids, now=now, node=node, lease=lease)]

        def alone(id_: int, refusal: LedgerRefused) -> Renewal:
            set_apart_refused(self._database, id_, str(refusal), now)
            return Renewal(held=frozenset(), cancel_requested=frozenset())

        renewals = by_halves(list(execution_ids), ask, alone=alone)
        return Renewal(
            held=frozenset().union(*(each.held for each in renewals)),
            cancel_requested=frozenset().union(*(each.cancel_requested for each in renewals)),
        )

    @repeatable
    def _renew(
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        asked = {"ids": list(execution_ids), "node": node}
        with self._database.write("renewing leases") as connection:
            connection.execute(_RENEW, {**asked, "until": now + lease})
            rows = connection.execute(_RENEWED, asked).all()
        return Renewal(
            held=frozenset(row.id for row in rows),
            cancel_requested=frozenset(row.id for row in rows if row.cancel_requested),
        )

    def keep_written(self, written: Sequence[Written], *, now: datetime, node: str) -> None:
        """See `AttemptStorePort.keep_written`. What is refused is left for the end to judge."""

        def ask(part: Sequence[Written]) -> Sequence[None]:
            self._keep_written(part, now=now, node=node)
            return ()

        by_halves(written, ask, alone=lambda _one, _refusal: None)

    @repeatable
    def _keep_written(self, written: Sequence[Written], *, now: datetime, node: str) -> None:
        """Keep it. Rows are held: a finish replaces, and is last."""
        asked = {"ids": [one.execution_id for one in written], "node": node}
        with self._database.write("keeping what attempts have written") as connection:
            rows = connection.execute(self._database.vendor.held(_NUMBER_OF_HELD), asked)
            running = {(row.id, row.attempt) for row in rows}
            keep_outputs(
                connection,
                [
                    output_values(one.execution_id, one.attempt, one, as_of=now)
                    for one in written
                    if (one.execution_id, one.attempt) in running
                ],
            )

    def adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused:
        """See `AttemptStorePort.adopt`."""
        try:
            return self._adopt(message, key=key, queue=queue, deaths=deaths, now=now, node=node)
        except LedgerRefused as refusal:
            return Refused(str(refusal))

    @repeatable
    def _adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused:
        with self._database.write("adopting a message") as connection:
            known = find_by_key(connection, message.scheduler_id, key)
            if known is not None:
                return known
            try:
                return claim_by_hand(
                    connection,
                    self._database.vendor,
                    message.scheduler_id,
                    key=key,
                    now=now,
                    node=node,
                    task=TaskRef(message.type, message.id),
                    params=message.params_scheduler,
                    queue=queue,
                    deaths=deaths,
                )
            except NotToBeRun as error:
                return Refused(str(error))

    def _end_refused(
        self,
        ask: Callable[[Sequence[Finish]], Sequence[State | Superseded]],
        now: datetime,
        finish: Finish,
        refusal: LedgerRefused,
    ) -> State | Superseded:
        """Quarantine an execution whose end is refused; of how it ran, only the ending is kept."""
        error = TaskError(message=f"its end was refused: {refusal}")
        outcome = Outcome(ending=finish.ran.outcome.ending, error=error)
        bare = Finish(
            execution=finish.execution,
            ran=Ran(outcome=outcome),
            verdict=Quarantine(error.message),
        )
        try:
            [answer] = ask([bare])
        except LedgerRefused as again:
            set_apart_refused(self._database, finish.execution.id, str(again), now)
            return Superseded()
        return answer

    def _end(
        self,
        connection: Connection,
        finishes: Sequence[Finish],
        counts: Callable[[Row[Any], Finish], bool],
        now: datetime,
    ) -> list[State | Superseded]:
        ids = {"ids": [finish.execution.id for finish in finishes]}
        standing = {row.id: row for row in connection.execute(self._standing, ids)}
        ended: dict[int, tuple[Execution, Finish]] = {}
        for place, finish in enumerate(finishes):
            row = standing.get(finish.execution.id)
            if row is not None and row.state == State.RUNNING and counts(row, finish):
                del standing[row.id]  # of two ends of one attempt the first counts
                ended[place] = (_as_it_stands(finish.execution, row), finish)
        states = dict(
            zip(
                ended,
                write_endings(connection, self._database.vendor, list(ended.values()), now=now),
                strict=True,
            )
        )
        return [states.get(place, Superseded()) for place in range(len(finishes))]


def _answered_again(
    connection: Connection,
    finishes: Sequence[Finish],
    answers: Sequence[State | Superseded],
    node: str,
) -> Sequence[State | Superseded]:
    """Answer once more what this node has recorded before: rare, so of nothing else it is asked."""
    pairs = list(zip(finishes, answers, strict=True))
    ids = [finish.execution.id for finish, answer in pairs if answer == Superseded()]
    if not ids:
        return answers
    rows = connection.execute(_RECORDED, {"ids": ids, "node": node})
    recorded = {(row.execution_id, row.attempt): row for row in rows}

    def again(finish: Finish) -> State | Superseded:
        row = recorded.get((finish.execution.id, finish.execution.attempt))
        if row is None:
            return Superseded()
        return finish.repeated(row.ending, state=State(row.state), attempt=row.due)

    return [again(finish) if answer == Superseded() else answer for finish, answer in pairs]


def _as_it_stands(execution: Execution, row: Row[Any]) -> Execution:
    """Give a running attempt's execution as it is now: all that others change is a cancel."""
    if row.cancel_requested == execution.cancel_requested:
        return execution
    return msgspec.structs.replace(execution, cancel_requested=row.cancel_requested)


def _judge(
    wish: Start, execution: Execution | None, *, node: str, now: datetime, until: datetime
) -> Execution | Refused:
    if execution is None:
        return Refused(f"execution {wish.execution_id} is unknown", unknown=True)
    after = fence.start(
        execution, attempt=wish.attempt, nacks=wish.nacks, node=node, now=now, until=until
    )
    return Refused(after) if isinstance(after, str) else after
