"""Ending attempts, by their result or as lost: a batch is read and judged, then written."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import attrs
import msgspec
from sqlalchemy import Connection, Row, bindparam, select

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.retry_limits import AttemptEnd
from cronhare.domain.lifecycle.transitions import Standing, may_finish, may_give_up, state_after
from cronhare.domain.retries.limits import UNLIMITED
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.retries.retry import Fail, Quarantine, RetryAfter
from cronhare.ports.attempts import Busy, Finish, Limited, Recorded, Superseded

from ..isolation import Written, pass_over, set_apart, write_each
from ..limits.judging import rule_on_retries
from ..schema.named_rows import named_rows
from ..schema.tables import attempts, by_id, executions
from ..transactions.database import StorePart, repeatable_unless_locked
from .end_writes import write_ends
from .standing import UNLOCKED_STANDING, locked_elsewhere

_RECORDED = (
    select(
        attempts.c.execution_id,
        attempts.c.attempt,
        attempts.c.ending,
        executions.c.state,
        executions.c.attempt.label("due"),
        executions.c.last_error,
        executions.c.next_attempt_at,
    )
    .join(executions, executions.c.id == attempts.c.execution_id)
    .where(
        attempts.c.execution_id.in_(bindparam("ids", expanding=True)),
        attempts.c.node == bindparam("node"),
    )
)

_LAST_ERROR = by_id(select(executions.c.last_error))


class AttemptEnds(StorePart):
    """The part of `AttemptStorePort` that ends attempts."""

    def finish(
        self, finishes: Sequence[Finish], *, now: datetime, node: str
    ) -> Sequence[Recorded | Busy]:
        def may(standing: Standing, finish: Finish) -> bool:
            return may_finish(standing, finish.execution.attempt, node=node)

        return self._end(finishes, "recording results", may, now, node=node)

    def give_up(self, finishes: Sequence[Finish], *, now: datetime) -> Sequence[Recorded | Busy]:
        def may(standing: Standing, finish: Finish) -> bool:
            return may_give_up(standing, version=finish.execution.version)

        return self._end(finishes, "giving up lost attempts", may, now)

    def _end(
        self,
        finishes: Sequence[Finish],
        doing: str,
        may: Callable[[Standing, Finish], bool],
        now: datetime,
        *,
        node: str | None = None,
    ) -> Sequence[Recorded | Busy]:
        """End those that *may* end; what *node* has recorded before is answered once more."""

        @repeatable_unless_locked
        def end(part: Sequence[Finish]) -> Written[Recorded | Busy]:
            with self._database.write(doing) as connection:
                ended = self._write(connection, part, may, now)
                if node is None:
                    return ended
                again = _answered_again(connection, part, ended.answers, node, now)
                return attrs.evolve(ended, answers=again)

        def refused(finish: Finish, why: Exception) -> Sequence[Recorded | Busy]:
            """Quarantine its execution, without output and error of the attempt."""
            reason = f"it ended ({finish.ran.outcome.in_brief}), but that is refused: {why}"
            is_apart = set_apart(
                self._database,
                finish.execution.id,
                reason,
                now,
                still=lambda found: may(found, finish),
            )
            return [Limited(Quarantine(reason)) if is_apart else Busy()]

        def doubted(finish: Finish, why: Exception) -> Sequence[Recorded | Busy]:
            pass_over(self._database, finish.execution.id, why, now)
            return [Superseded()]

        def locked(_: Finish) -> Sequence[Recorded | Busy]:
            return [Busy()]

        if node is not None:
            return write_each(finishes, end, refused=refused, locked=locked)
        return write_each(
            finishes,
            end,
            refused=refused,
            locked=locked,
            doubted=doubted,
            untried=lambda _: [Superseded()],  # it may be free, and its owner dead: another look
        )

    def _write(
        self,
        connection: Connection,
        finishes: Sequence[Finish],
        may: Callable[[Standing, Finish], bool],
        now: datetime,
    ) -> Written[Recorded | Busy]:
        ids = {finish.execution.id for finish in finishes}
        rows = named_rows(connection, UNLOCKED_STANDING, {"ids": list(ids)})
        standing = {row.id: row for row in rows}
        busy = locked_elsewhere(connection, ids - standing.keys())
        ended: dict[int, tuple[Execution, Finish]] = {}
        for place, finish in enumerate(finishes):
            row = standing.get(finish.execution.id)
            if row is not None and may(row, finish):
                del standing[row.id]  # of two ends of one attempt the first counts
                ended[place] = (_as_it_stands(connection, finish.execution, row), finish)
        recorded = dict(zip(ended, self._record(connection, ended.values(), now), strict=True))
        answers = [
            Busy() if finish.execution.id in busy else recorded.get(place, Superseded())
            for place, finish in enumerate(finishes)
        ]
        return Written(answers, changed=bool(ended))

    def _record(
        self,
        connection: Connection,
        asked: Collection[tuple[Execution, Finish]],
        now: datetime,
    ) -> Sequence[Recorded]:
        """Write the ends of running attempts, with the verdicts that the retries' limits leave."""
        dialect = self._database.dialect
        standing = [
            AttemptEnd(
                execution=execution,
                ending=finish.ran.outcome.ending,
                verdict=finish.verdict,
                limits=finish.limits,
            )
            for execution, finish in asked
        ]
        ruled = rule_on_retries(connection, dialect, standing, now=now)
        ended = [
            (
                one,
                finish
                if by.verdict is finish.verdict
                else attrs.evolve(finish, verdict=by.verdict),
            )
            for (one, finish), by in zip(asked, ruled, strict=True)
        ]
        states = write_ends(connection, dialect, ended, now=now)
        return [
            state if by.leaves(finish.verdict) else Limited(by.verdict, by.changes)
            for (_, finish), by, state in zip(asked, ruled, states, strict=True)
        ]


def _answered_again(
    connection: Connection,
    finishes: Sequence[Finish],
    answers: Sequence[Recorded | Busy],
    node: str,
    now: datetime,
) -> Sequence[Recorded | Busy]:
    """Replace `Superseded` by the former answer where this node had recorded the end."""
    pairs = list(zip(finishes, answers, strict=True))
    ids = [finish.execution.id for finish, answer in pairs if answer == Superseded()]
    if not ids:
        return answers
    rows: Any = connection.execute(_RECORDED, {"ids": ids, "node": node})
    recorded = {(row.execution_id, row.attempt): row for row in rows}

    def again(finish: Finish) -> Recorded:
        row = recorded.get((finish.execution.id, finish.execution.attempt))
        return Superseded() if row is None else _repeated(finish, row, now)

    return [again(finish) if answer == Superseded() else answer for finish, answer in pairs]


def _repeated(finish: Finish, row: Row[Any], now: datetime) -> Recorded:
    """Answer a finish whose attempt has ended already; what was given up as lost has no result."""
    if row.ending != finish.ran.outcome.ending or row.ending == Ending.LOST:
        return Superseded()
    wanted, is_limited = state_after(finish.verdict), finish.limits != UNLIMITED
    if row.due != finish.execution.attempt:
        is_next = row.state == State.RETRYING and row.due == finish.execution.attempt + 1
        if is_limited and is_next:
            delay = max((row.next_attempt_at or now) - now, timedelta(0))
            return Limited(RetryAfter(delay, row.last_error or ""))
        return wanted
    if is_limited and row.state == State.FAILED and wanted is State.RETRYING:
        return Limited(Fail(row.last_error or ""))
    return State(row.state)


def _as_it_stands(connection: Connection, execution: Execution, row: Row[Any]) -> Execution:
    """Give a running attempt's execution as the ledger has it: with a request to cancel, say."""
    seen = (row.owner, row.deaths, row.cancel_requested)
    if seen == (execution.owner, execution.deaths, execution.cancel_requested):
        return execution
    # A text on which few ends depend: it is not asked for with what all need.
    error = connection.scalar(_LAST_ERROR, {"ids": [execution.id]})
    return msgspec.structs.replace(
        execution,
        state=State.RUNNING,
        owner=row.owner,
        lease_until=row.lease_until,
        deaths=row.deaths if isinstance(row.deaths, int) else execution.deaths,
        cancel_requested=bool(row.cancel_requested),
        last_error=error if isinstance(error, str) else execution.last_error,
    )
