"""Attempts in SQL: a batch is read and judged, then written with one statement per table."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import attrs
import msgspec
from sqlalchemy import Connection, Engine, Row, Select, bindparam, select, update

from cronhare.domain.execution import STARTABLE, Execution, State
from cronhare.domain.lifecycle import start_fence
from cronhare.domain.lifecycle.claims import NotToBeRun
from cronhare.domain.lifecycle.transitions import Standing, is_held, may_finish, may_give_up
from cronhare.domain.messages.messages import TaskMessage
from cronhare.domain.retries.outcome import Outcome, TaskError
from cronhare.domain.retries.retry import Quarantine
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.attempts import (
    Apart,
    Busy,
    EndRefused,
    Finish,
    Recorded,
    Refused,
    Renewal,
    StartRequest,
    Superseded,
)
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerRefused
from cronhare.ports.runner import AttemptResult, Written

from ..claims.manual_claims import claim_by_hand, find_by_key
from ..dialect import Locked
from ..isolation.bisection import BatchResult, OnLocked
from ..isolation.quarantine import quarantine_and_log, quarantine_refused
from ..isolation.refusals import bisect_and_judge, bisect_batch
from ..isolation.suspects import Kind, Suspects
from ..mapping.execution_rows import BY_IDS, find_executions
from ..mapping.outputs import keep_outputs, output_values
from ..mapping.transition_columns import write_changes
from ..schema.tables import attempts, executions
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable
from ..transactions.lock_waits import NOT_AT_ALL, limit_lock_wait
from .end_writes import kind_of_ending, write_ends
from .start_writes import StartKind, write_starts
from .trial_start import could_start_another

_STATES = frozenset(State)
_IDS = select(executions.c.id).where(executions.c.id.in_(bindparam("ids", expanding=True)))
_STANDING: Select[Any] = select(
    executions.c.id,
    executions.c.state,
    executions.c.owner,
    executions.c.lease_until,
    executions.c.attempt,
    executions.c.version,
    executions.c.deaths,
    executions.c.cancel_requested,
).where(executions.c.id.in_(bindparam("ids", expanding=True)))
_RENEW = (
    update(executions)
    .where(executions.c.id.in_(bindparam("ids", expanding=True)))
    # As `transitions.renew`, without a look at whole rows.
    .values(lease_until=bindparam("until", type_=UtcDateTime), version=executions.c.version + 1)
)
_RECORDED = (
    select(
        attempts.c.execution_id,
        attempts.c.attempt,
        attempts.c.ending,
        executions.c.state,
        executions.c.attempt.label("due"),
        executions.c.last_error,
    )
    .join(executions, executions.c.id == attempts.c.execution_id)
    .where(
        attempts.c.execution_id.in_(bindparam("ids", expanding=True)),
        attempts.c.node == bindparam("node"),
    )
)


class SqlAttemptStore:
    """Satisfies `AttemptStorePort`. What is repeatable here is one transaction.

    Of what the database refuses, each part that is tried again is one (ADR 31).
    """

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """See `Database`."""
        self._database = Database(engine, clock)
        self._by_ids = BY_IDS.with_for_update(skip_locked=True)
        self._standing = _STANDING.with_for_update(skip_locked=True)
        self._starts, self._ends, self._leases = Suspects(), Suspects(), Suspects()
        self._locked_starts = OnLocked[StartRequest, Execution | Refused | Busy](
            lambda _: Busy(), unasked=lambda _: Busy(is_asked=False)
        )
        self._locked_ends = OnLocked[Finish, Recorded | Busy](
            lambda _: Busy(), unasked=lambda _: Busy(is_asked=False)
        )
        self._locked_leases = OnLocked[int, Renewal](lambda id_: _renewal(busy={id_}))
        self._locked_outputs = OnLocked[Written, None](lambda _: None)

    def start(
        self, requests: Sequence[StartRequest], *, now: datetime, node: str, lease: timedelta
    ) -> Sequence[Execution | Refused | Busy]:
        """See `AttemptStorePort.start`."""

        def alone(request: StartRequest, refusal: LedgerRefused) -> Execution | Refused | Busy:
            def still(found: Execution) -> bool:
                is_to_start = found.state in STARTABLE or is_held(found, node)
                return is_to_start and found.attempt == request.attempt

            self._set_apart(request.execution_id, refusal, now, still)
            return Refused(str(refusal))

        kinds: dict[int, Kind] = {}
        return bisect_and_judge(
            requests,
            partial(self._start, now=now, node=node, lease=lease, kinds=kinds),
            alone=alone,
            suspects=self._starts,
            on_locked=self._locked_starts,
            id_of=lambda request: request.execution_id,
            kinds=kinds,
            could_another=partial(
                could_start_another,
                self._database,
                {request.execution_id for request in requests},
                now=now,
                node=node,
                until=now + lease,
            ),
        )

    @repeatable
    def _start(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        kinds: dict[int, Kind],
    ) -> BatchResult[Execution | Refused | Busy]:
        with self._database.write("starting attempts") as connection:
            ids = {request.execution_id for request in requests}
            found = find_executions(connection, self._by_ids, ids, read=self._database.dialect.read)
            busy = _passed_over(connection, ids - found.keys())
            answers: list[Execution | Refused | Busy] = []
            after: dict[int, Execution] = {}
            for request in requests:
                if request.execution_id in busy:
                    answers.append(Busy())
                    continue
                known = after.get(request.execution_id) or found.get(request.execution_id)
                answer = _judge(request, known, node=node, now=now, until=now + lease)
                if isinstance(answer, Execution):
                    after[answer.id] = answer
                answers.append(answer)
            changed = [(found[id_], one) for id_, one in after.items()]
            held = [change for change in changed if is_held(change[0], node)]
            started = [change for change in changed if not is_held(change[0], node)]
            write_changes(connection, self._database.dialect, held)
            kinds.update((one.id, StartKind.of(one)) for one, _ in started)
            write_starts(connection, self._database.dialect, started, now=now, node=node)
            return BatchResult(answers, [one.id for one, _ in started])

    def finish(
        self, finishes: Sequence[Finish], *, now: datetime, node: str
    ) -> Sequence[Recorded | Busy]:
        """See `AttemptStorePort.finish`."""
        kinds: dict[int, Kind] = {}

        def may(standing: Standing, finish: Finish) -> bool:
            return may_finish(standing, finish.execution.attempt, node=node)

        @repeatable
        def ask(part: Sequence[Finish]) -> BatchResult[Recorded | Busy]:
            with self._database.write("recording results") as connection:
                ended = self._end(connection, part, may, now, kinds)
                again = _answered_again(connection, part, ended.answers, node)
                return attrs.evolve(ended, answers=again)

        return self._ask_to_end(finishes, ask, may, now, kinds)

    def give_up(self, finishes: Sequence[Finish], *, now: datetime) -> Sequence[Recorded | Busy]:
        """See `AttemptStorePort.give_up`."""
        kinds: dict[int, Kind] = {}

        def may(standing: Standing, finish: Finish) -> bool:
            return may_give_up(standing, version=finish.execution.version)

        @repeatable
        def ask(part: Sequence[Finish]) -> BatchResult[Recorded | Busy]:
            with self._database.write("giving up lost attempts") as connection:
                return self._end(connection, part, may, now, kinds)

        def later(finish: Finish) -> Recorded | Busy:
            self._database.passed_over.note(finish.execution.id, now)
            return Superseded()

        return self._ask_to_end(finishes, ask, may, now, kinds, unproven=later)

    def _ask_to_end(
        self,
        finishes: Sequence[Finish],
        ask: Callable[[Sequence[Finish]], BatchResult[Recorded | Busy]],
        may: Callable[[Standing, Finish], bool],
        now: datetime,
        kinds: dict[int, Kind],
        *,
        unproven: Callable[[Finish], Recorded | Busy] | None = None,
    ) -> Sequence[Recorded | Busy]:
        return bisect_and_judge(
            finishes,
            ask,
            alone=partial(self._end_refused, ask, now, may),
            suspects=self._ends,
            on_locked=self._locked_ends,
            id_of=lambda finish: finish.execution.id,
            kinds=kinds,
            unproven=unproven,
        )

    def renew(
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        """See `AttemptStorePort.renew`. What cannot be renewed is no longer held."""

        def ask(ids: Sequence[int]) -> BatchResult[Renewal]:
            renewal = self._renew(ids, now=now, node=node, lease=lease)
            return BatchResult([renewal], renewal.held)

        def alone(id_: int, refusal: LedgerRefused) -> Renewal:
            self._set_apart(id_, refusal, now, lambda found: is_held(found, node))
            return _renewal()

        renewals = bisect_and_judge(
            list(execution_ids),
            ask,
            alone=alone,
            suspects=self._leases,
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
        self, execution_ids: Collection[int], *, now: datetime, node: str, lease: timedelta
    ) -> Renewal:
        with self._database.write("renewing leases") as connection:
            seen = connection.execute(self._standing, {"ids": list(execution_ids)}).all()
            rows = [row for row in seen if is_held(row, node)]
            held = frozenset(row.id for row in rows)
            if held:
                connection.execute(_RENEW, {"ids": list(held), "until": now + lease})
            rest = list(set(execution_ids).difference(row.id for row in seen))
            busy = connection.execute(_STANDING, {"ids": rest}).all() if rest else ()
        return Renewal(
            held=held,
            cancel_requested=frozenset(row.id for row in rows if row.cancel_requested),
            busy=frozenset(row.id for row in busy if is_held(row, node)),
        )

    def keep_written(self, written: Sequence[Written], *, now: datetime, node: str) -> None:
        """See `AttemptStorePort.keep_written`. What is refused is left for the end to judge."""
        bisect_batch(
            written,
            partial(self._keep_written, now=now, node=node),
            alone=lambda _one, _refusal: None,
            on_locked=self._locked_outputs,
        )

    @repeatable
    def _keep_written(
        self, written: Sequence[Written], *, now: datetime, node: str
    ) -> BatchResult[None]:
        """Keep it. Rows are held: a finish replaces, and is last. Others' are left out."""
        ids = [one.execution_id for one in written]
        with self._database.write("keeping what attempts have written") as connection:
            rows = connection.execute(self._standing, {"ids": ids})
            held = {row.id: row for row in rows if is_held(row, node)}
            keep_outputs(
                connection,
                self._database.dialect,
                [
                    output_values(one.execution_id, one.attempt, one, as_of=now)
                    for one in written
                    if (row := held.get(one.execution_id))
                    and may_finish(row, one.attempt, node=node)
                ],
            )
            return BatchResult((), held.keys())

    def adopt(
        self, message: TaskMessage, *, key: str, queue: str, deaths: int, now: datetime, node: str
    ) -> Execution | Refused | Busy:
        """See `AttemptStorePort.adopt`."""
        try:
            with limit_lock_wait(NOT_AT_ALL):
                return self._adopt(message, key=key, queue=queue, deaths=deaths, now=now, node=node)
        except Locked:
            return Busy()
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
                    self._database.dialect,
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
        ask: Callable[[Sequence[Finish]], BatchResult[Recorded | Busy]],
        now: datetime,
        may: Callable[[Standing, Finish], bool],
        finish: Finish,
        refusal: LedgerRefused,
    ) -> Recorded | Busy:
        """Quarantine an execution whose end is refused; of how it ran, only the ending is kept.

        Nothing is logged here: how it ended belongs into the one line that tells of it.
        """
        ended = finish.ran.outcome
        error = TaskError(message=f"it ended ({ended.in_brief}), but that is refused: {refusal}")
        outcome = Outcome(
            ending=ended.ending, exit_code=ended.exit_code, signal=ended.signal, error=error
        )
        bare = Finish(
            execution=finish.execution,
            ran=AttemptResult(outcome=outcome),
            verdict=Quarantine(error.message),
        )
        try:
            [answer] = ask([bare]).answers
        except LedgerRefused:
            apart = quarantine_refused(
                self._database,
                finish.execution.id,
                error.message,
                now,
                still=lambda found: may(found, finish),
            )
            return EndRefused(error.message, apart) if isinstance(apart, Apart) else apart
        return EndRefused(error.message) if answer is State.QUARANTINED else answer

    def _set_apart(
        self, id_: int, why: LedgerRefused, now: datetime, still: Callable[[Execution], bool]
    ) -> None:
        quarantine_and_log(self._database, id_, str(why), now, still=still)

    def _end(
        self,
        connection: Connection,
        finishes: Sequence[Finish],
        may: Callable[[Standing, Finish], bool],
        now: datetime,
        kinds: dict[int, Kind],
    ) -> BatchResult[Recorded | Busy]:
        ids = {finish.execution.id for finish in finishes}
        rows = connection.execute(self._standing, {"ids": list(ids)})
        standing = {row.id: row for row in rows}
        busy = _passed_over(connection, ids - standing.keys())
        ended: dict[int, tuple[Execution, Finish]] = {}
        for place, finish in enumerate(finishes):
            row = standing.get(finish.execution.id)
            if row is not None and may(row, finish):
                del standing[row.id]  # of two ends of one attempt the first counts
                ended[place] = (_as_it_stands(finish.execution, row), finish)
        kinds.update((one.id, kind_of_ending(one, finish)) for one, finish in ended.values())
        states = dict(
            zip(
                ended,
                write_ends(connection, self._database.dialect, list(ended.values()), now=now),
                strict=True,
            )
        )
        answers = [
            Busy() if finish.execution.id in busy else states.get(place, Superseded())
            for place, finish in enumerate(finishes)
        ]
        return BatchResult(answers, [execution.id for execution, _ in ended.values()])


def _renewal(*, busy: Collection[int] = ()) -> Renewal:
    """Renew none."""
    return Renewal(held=frozenset(), cancel_requested=frozenset(), busy=frozenset(busy))


def _passed_over(connection: Connection, not_found: Collection[int]) -> Collection[int]:
    """Tell which of those that a look with locks did not find are there: somebody holds them."""
    if not not_found:
        return ()
    return frozenset(connection.scalars(_IDS, {"ids": list(not_found)}))


def _answered_again(
    connection: Connection,
    finishes: Sequence[Finish],
    answers: Sequence[Recorded | Busy],
    node: str,
) -> Sequence[Recorded | Busy]:
    """Answer once more what this node has recorded before: rare, so of nothing else it is asked."""
    pairs = list(zip(finishes, answers, strict=True))
    ids = [finish.execution.id for finish, answer in pairs if answer == Superseded()]
    if not ids:
        return answers
    rows = connection.execute(_RECORDED, {"ids": ids, "node": node})
    recorded = {(row.execution_id, row.attempt): row for row in rows}

    def again(finish: Finish) -> Recorded:
        row = recorded.get((finish.execution.id, finish.execution.attempt))
        if row is None or row.state not in _STATES:  # somebody wrote what is none
            return Superseded()
        return finish.repeated(
            row.ending, state=State(row.state), attempt=row.due, last_error=row.last_error
        )

    return [again(finish) if answer == Superseded() else answer for finish, answer in pairs]


def _as_it_stands(execution: Execution, row: Row[Any]) -> Execution:
    """Give a running attempt's execution as the ledger has it: asked to end, perhaps."""
    seen = (row.owner, row.deaths, row.cancel_requested)
    if seen == (execution.owner, execution.deaths, execution.cancel_requested):
        return execution
    return msgspec.structs.replace(
        execution,
        state=State.RUNNING,
        owner=row.owner,
        lease_until=row.lease_until,
        deaths=row.deaths if isinstance(row.deaths, int) else execution.deaths,
        cancel_requested=bool(row.cancel_requested),
    )


def _judge(
    request: StartRequest, execution: Execution | None, *, node: str, now: datetime, until: datetime
) -> Execution | Refused:
    if execution is None:
        return Refused(f"execution {request.execution_id} is unknown", unknown=True)
    after = start_fence.start(
        execution, attempt=request.attempt, nacks=request.nacks, node=node, now=now, until=until
    )
    return Refused(after) if isinstance(after, str) else after
