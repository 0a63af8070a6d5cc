"""What the end of an attempt writes: its own row, its execution's, its output, the archive."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import attrs
import msgspec
from sqlalchemy import Connection, Row, Update, bindparam, select, update

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived, archive_end
from cronhare.domain.lifecycle.retry_limits import AttemptEnd
from cronhare.domain.lifecycle.transitions import (
    Standing,
    end,
    may_finish,
    may_give_up,
    overruled,
    state_after,
)
from cronhare.domain.retries.limits import UNLIMITED
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.retries.retry import Fail, Quarantine, RetryAfter
from cronhare.ports.attempts import Busy, Finish, Limited, Recorded, Superseded

from ..database import StorePart, repeatable_unless_locked
from ..dialect import Dialect
from ..isolation import Written, pass_over, set_apart, write_each
from ..limits.judging import rule_on_retries
from ..rows.changes import ARCHIVE, archive_values, write_changes
from ..rows.executions import keep_outputs, output_values
from ..schema.tables import attempts, by_id, executions
from ..schema.types import UtcDateTime, named_rows
from .starts import UNLOCKED_STANDING, locked_elsewhere

_THIS_ATTEMPT = (
    attempts.c.execution_id == bindparam("ended_id"),
    attempts.c.attempt == bindparam("ended_attempt"),
)
_END_ATTEMPT = (
    update(attempts)
    .where(*_THIS_ATTEMPT)
    .values(
        finished_at=bindparam("finished_at", type_=UtcDateTime),
        exit_code=bindparam("exit_code"),
        pid=bindparam("pid"),
        peak_memory=bindparam("peak_memory"),
        cpu_seconds=bindparam("cpu_seconds"),
        left_running=bindparam("left_running"),
    )
)
# A statement of its own, as it is rare: MySQL writes long texts of many rows by way of a file.
_END_BADLY = _END_ATTEMPT.values(
    ending=bindparam("ending"), signal=bindparam("signal"), error=bindparam("error")
)
_END_WELL = _END_ATTEMPT.values(ending=Ending.SUCCEEDED.value)


def write_ends(
    connection: Connection,
    dialect: Dialect,
    ended: list[tuple[Execution, Finish]],
    *,
    now: datetime,
) -> list[State]:
    """Write the ends of running attempts, each paired with its execution as it is now.

    Answers the states that the executions are in then.
    """
    if not ended:
        return []
    changed = [(execution, _ended(execution, finish, now)) for execution, finish in ended]
    write_changes(connection, dialect, changed)
    _write_attempts(connection, dialect, ended, now)
    outputs = [
        output_values(one.id, one.attempt, finish.ran, as_of=None)
        for one, finish in ended
        if finish.ran.has_output
    ]
    keep_outputs(connection, dialect, outputs)
    failed = [archived for pair in ended if (archived := _archived(*pair, now))]
    if failed:
        connection.execute(ARCHIVE, list(map(archive_values, failed)))
    return [after.state for _, after in changed]


def _ended(execution: Execution, finish: Finish, now: datetime) -> Execution:
    verdict = overruled(execution, finish.verdict)
    return end(execution, verdict, finish.ran.outcome.ending, now=now)


def _write_attempts(
    connection: Connection,
    dialect: Dialect,
    ended: Sequence[tuple[Execution, Finish]],
    now: datetime,
) -> None:
    rows: dict[Update, list[dict[str, Any]]] = {_END_WELL: [], _END_BADLY: []}
    for execution, finish in ended:
        succeeded = finish.ran.outcome.ending is Ending.SUCCEEDED
        ran, outcome = finish.ran, finish.ran.outcome
        row = {
            "ended_id": execution.id,
            "ended_attempt": execution.attempt,
            "finished_at": now,
            "ending": outcome.ending.value,
            "exit_code": outcome.exit_code,
            "signal": outcome.signal,
            "pid": ran.pid,
            "error": None if outcome.error is None else outcome.error.as_json(),
            "peak_memory": ran.peak_memory,
            "cpu_seconds": ran.cpu_seconds,
            "left_running": ran.left_running,
        }
        rows[_END_WELL if succeeded else _END_BADLY].append(row)
    for statement, values in rows.items():
        if values:
            dialect.update_many(connection, statement, values)


def _archived(execution: Execution, finish: Finish, now: datetime) -> Archived | None:
    verdict = overruled(execution, finish.verdict)
    return archive_end(execution, verdict, finish.ran.outcome.error, now)


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
