"""What the end of an attempt writes: its own row, its execution's, its output, the archive."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import attrs
import msgspec
from sqlalchemy import Connection, Row, Select, bindparam, select, update

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived, archive, self_pause
from cronhare.domain.lifecycle.retry_limits import AttemptEnd, Limited
from cronhare.domain.lifecycle.transitions import (
    Standing,
    end,
    may_finish,
    may_give_up,
    overruled,
    state_after,
)
from cronhare.domain.reading import Invalid
from cronhare.domain.retries.limits import UNLIMITED, LimitChange
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.retries.retry import Complete, Fail, Quarantine, RetryAfter, Verdict
from cronhare.domain.schedules.conditions import read_conditions
from cronhare.domain.schedules.skips import paused_by_failures
from cronhare.ports.attempts import Busy, Finish, Recorded, Superseded
from cronhare.ports.runner import AttemptResult

from .database import StorePart, repeatable_unless_locked
from .dialect import Locked, dialect_of
from .limits import rule_on_retries
from .tables.executions import SUCCESS, in_states, keep_outputs, output_values
from .tables.schedule_columns import LONG_AGO, decoded
from .tables.schedules import PAUSE_OF, SET_PAUSE, pause_values, read_pause
from .tables.tables import IDS, attempts, by_id, executions, schedulers
from .tables.types import moment_of
from .writing import ARCHIVE, REFUSED, Written, archive_values, set_apart, write_changes, write_each

_RUN: Final = executions.c

_EXISTING = by_id(select(_RUN.id))

STANDING: Select[Any] = by_id(
    select(
        _RUN.id,
        _RUN.state,
        *_RUN["owner", "lease_until", "attempt", "version", "deaths", "cancel_requested"],
    )
)
UNLOCKED_STANDING = STANDING.with_for_update(skip_locked=True)


def locked_elsewhere(connection: Connection, not_found: Collection[int]) -> Collection[int]:
    """Give the ids that exist although a look with `SKIP LOCKED` has not found them."""
    if not not_found:
        return ()
    return frozenset(connection.scalars(_EXISTING, {"ids": list(not_found)}))


_ENDED = ("finished_at", "ending", "signal", "error", *SUCCESS[1:])
_END_ATTEMPT = (
    update(attempts)
    .where(
        attempts.c.execution_id == bindparam("ended_id"),
        attempts.c.attempt == bindparam("ended_attempt"),
    )
    .values({name: bindparam(name, type_=attempts.c[name].type) for name in _ENDED})
)

_RECORDED = (
    select(
        *attempts.c["execution_id", "attempt", "ending"],
        _RUN.state,
        _RUN.attempt.label("due"),
        _RUN.last_error,
        _RUN.next_attempt_at,
    )
    .join(executions, _RUN.id == attempts.c.execution_id)
    .where(attempts.c.execution_id.in_(IDS), attempts.c.node == bindparam("node"))
)

_LAST_ERROR = by_id(select(_RUN.last_error))


def _success(execution_id: int, ran: AttemptResult) -> tuple[Any, ...]:
    process = ran.pid, ran.peak_memory, ran.cpu_seconds, ran.left_running
    return (execution_id, ran.outcome.exit_code, *process)


class _NotAll(Exception):
    """Some of a batch are no plain success: none is written."""


def _is_plain(finish: Finish) -> bool:
    outcome, verdict = finish.ran.outcome, finish.verdict
    has_succeeded = outcome.ending is Ending.SUCCEEDED and outcome.error is None
    return has_succeeded and isinstance(verdict, Complete) and finish.execution.attempt == 1


class AttemptEnds(StorePart):
    """The part of `AttemptStorePort` that ends attempts."""

    def finish(
        self, finishes: Sequence[Finish], *, now: datetime, node: str
    ) -> Sequence[Recorded | Busy]:
        if finishes and all(map(_is_plain, finishes)) and self._succeed(finishes, now, node):
            return [State.SUCCEEDED] * len(finishes)

        def may(standing: Standing, finish: Finish) -> bool:
            return may_finish(standing, finish.execution.attempt, node=node)

        return self._end(finishes, "recording results", may, now, node=node)

    @repeatable_unless_locked
    def _succeed(self, finishes: Sequence[Finish], now: datetime, node: str) -> bool:
        """Record a batch of plain successes at once, as most are; if not all can be, then none."""
        ends = [_success(one.execution.id, one.ran) for one in finishes]
        with suppress(_NotAll, *REFUSED, Locked):
            with self._database.write("recording results") as connection:
                ended = self._database.dialect.succeed(connection, ends, now=now, node=node)
                if ended < len(ends):
                    raise _NotAll
                _keep_outputs(connection, ((one.execution, one.ran) for one in finishes))
            return True
        return False

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
        """End those that *may* end; what *node* has recorded before is answered once more.

        Without a *node* they are lost: one that cannot be ended now is looked at again later, as
        its owner may be dead.
        """

        @repeatable_unless_locked
        def end(part: Sequence[Finish]) -> Written[Recorded | Busy]:
            with self._database.write(doing) as connection:
                answers = self._write(connection, part, may, now)
                changed = any(not isinstance(answer, Busy | Superseded) for answer in answers)
                if node is not None:
                    answers = _answered_again(connection, part, answers, node, now)
                return Written(answers, changed=changed)

        def refused(finish: Finish, why: Exception) -> Sequence[Recorded | Busy]:
            reason = f"it ended ({finish.ran.outcome.in_brief}), but that is refused: {why}"
            is_apart = set_apart(
                self._database,
                finish.execution.id,
                reason,
                now,
                still=lambda found: may(found, finish),
            )
            return [Limited(Quarantine(reason)) if is_apart else Busy()]

        return write_each(
            finishes,
            end,
            refused=refused,
            locked=lambda _: [Busy()],
            untried=(lambda _: [Superseded()]) if node is None else None,
        )

    def _write(
        self,
        connection: Connection,
        finishes: Sequence[Finish],
        may: Callable[[Standing, Finish], bool],
        now: datetime,
    ) -> list[Recorded | Busy]:
        ids = {finish.execution.id for finish in finishes}
        rows = self._database.dialect.read(connection, UNLOCKED_STANDING, {"ids": list(ids)})
        standing = {row.id: row for row in rows}
        busy = locked_elsewhere(connection, ids - standing.keys())
        answers: list[Recorded | Busy] = []
        ends: dict[int, AttemptEnd] = {}
        for place, finish in enumerate(finishes):
            answers.append(Busy() if finish.execution.id in busy else Superseded())
            row = standing.get(finish.execution.id)
            if row is not None and may(row, finish):
                del standing[row.id]  # of two ends of one attempt the first counts
                ends[place] = AttemptEnd(
                    execution=_as_it_stands(connection, finish.execution, row),
                    ending=finish.ran.outcome.ending,
                    verdict=finish.verdict,
                    limits=finish.limits,
                )
        if not ends:
            return answers
        ruled = rule_on_retries(connection, list(ends.values()), now=now)
        judged = list(zip(ends.items(), ruled, strict=True))
        ended = [
            _Ended(each.execution, finishes[place].ran, overruled(each.execution, by.verdict))
            for (place, each), by in judged
        ]
        states, paused = _write_ended(connection, ended, now)
        for ((place, each), by), state in zip(judged, states, strict=True):
            changes = (*by.changes, *paused.get(each.execution.id, ()))
            is_as_asked = by.verdict is each.verdict and not changes
            answers[place] = state if is_as_asked else Limited(by.verdict, changes)
        return answers


class _Ended(NamedTuple):
    execution: Execution
    ran: AttemptResult
    verdict: Verdict


def _write_ended(
    connection: Connection, ended: Sequence[_Ended], now: datetime
) -> tuple[list[State], Mapping[int, Sequence[LimitChange]]]:
    """Write executions, attempts, outputs and the archive; give the states of the executions.

    And of those with which schedules were paused, by id, what is to be told.
    """
    changed = [(one, end(one, verdict, ran.outcome.ending, now=now)) for one, ran, verdict in ended]
    write_changes(connection, changed)
    rows = [
        {
            "ended_id": one.id,
            "ended_attempt": one.attempt,
            "finished_at": now,
            "ending": ran.outcome.ending.value,
            "signal": ran.outcome.signal,
            "error": None if ran.outcome.error is None else ran.outcome.error.as_json(),
            **dict(zip(SUCCESS, _success(one.id, ran), strict=True)),
        }
        for one, ran, _ in ended
    ]
    dialect_of(connection).update_many(connection, _END_ATTEMPT, rows)
    _keep_outputs(connection, ((one, ran) for one, ran, _ in ended))
    failed = [
        archive(one, verdict, ran.outcome.error, now, check_at=now)  # its message is yet to be sent
        for one, ran, verdict in ended
        if isinstance(verdict, Fail | Quarantine)
    ]
    paused = _archive_all(connection, failed, now=now) if failed else ()
    return [after.state for _, after in changed], {
        one.execution_id: [self_pause(one)] for one in paused if one.paused_after is not None
    }


def _keep_outputs(connection: Connection, ended: Iterable[tuple[Execution, AttemptResult]]) -> None:
    outputs = [
        output_values(one.id, one.attempt, ran, as_of=None) for one, ran in ended if ran.has_output
    ]
    keep_outputs(connection, outputs)


def _answered_again(
    connection: Connection,
    finishes: Sequence[Finish],
    answers: list[Recorded | Busy],
    node: str,
    now: datetime,
) -> list[Recorded | Busy]:
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
    """Give a running attempt's execution as the ledger has it: a cancel may have been requested."""
    seen = (row.owner, row.deaths, row.cancel_requested)
    if seen == (execution.owner, execution.deaths, execution.cancel_requested):
        return execution
    # Few ends depend on this text, so it is not read with what all need.
    error = connection.scalar(_LAST_ERROR, {"ids": [execution.id]})
    return msgspec.structs.replace(
        execution,
        state=State.RUNNING,
        owner=row.owner,
        lease_until=row.lease_until,
        deaths=row.deaths,
        cancel_requested=bool(row.cancel_requested),
        last_error=error,
    )


# Schedules that pause themselves after so many failures in a row: `pause_after`. It is decided in
# the transaction that records a bad end for good, and costs nothing before. The plan is locked, so
# that of failures that end together none is overlooked.

#: What has no such word is not parsed.
_PAUSING: Final = (
    select(schedulers.c.id, schedulers.c.conditions)
    .where(schedulers.c.id.in_(IDS), schedulers.c.conditions.like("%pause_after%"))
    .order_by(schedulers.c.id)
)
#: A range of the index (scheduler_id, finished_at), read from its end.
_ENDS: Final = (
    select(_RUN.state)
    .where(
        _RUN.scheduler_id == bindparam("scheduler"),
        _RUN.finished_at > moment_of("since"),
        in_states({State.SUCCEEDED, State.FAILED, State.QUARANTINED}),
    )
    .order_by(_RUN.finished_at.desc(), _RUN.id.desc())
    .limit(bindparam("most"))
    .with_hint(executions, "FORCE INDEX (ix_execution_open)", "mysql")
)


def _archive_all(
    connection: Connection, archived: Sequence[Archived], *, now: datetime
) -> Sequence[Archived]:
    """Write rows of the archive, whose executions have ended, and pause what fails again and again.

    The last row of a schedule that is paused with it says so.

    Raises:
        Locked: somebody holds the plan of such a schedule.
    """
    last = {one.scheduler_id: place for place, one in enumerate(archived)}
    written = list(archived)
    for scheduler_id, text in connection.execute(_PAUSING, {"ids": sorted(last)}).all():
        one = written[last[scheduler_id]]
        try:
            conditions = read_conditions(decoded(text))
        except (Invalid, ValueError):  # a row that is broken pauses nothing
            continue
        most = conditions and conditions.pause_after
        if most and _pause(connection, one, most, now):
            written[last[scheduler_id]] = attrs.evolve(one, paused_after=most)
    connection.execute(ARCHIVE, list(map(archive_values, written)))
    return written


def _pause(connection: Connection, one: Archived, most: int, now: datetime) -> bool:
    """Pause a schedule if its last *most* ends are failures, since its last pause was over."""
    this = {"planned_id": one.scheduler_id}
    plan = connection.execute(PAUSE_OF.with_for_update(skip_locked=True), this).first()
    if plan is None:
        if connection.execute(PAUSE_OF, this).first() is not None:
            why = f"the plan of schedule {one.schedule_name} is locked"
            raise Locked(why, changed_nothing=True)
        return False
    before = read_pause(plan)
    if before is not None and before.is_on(now):
        return False
    since = (before and before.until) or LONG_AGO
    asked = {"scheduler": one.scheduler_id, "since": since, "most": most}
    failed = [state != State.SUCCEEDED for state in connection.scalars(_ENDS, asked)]
    pause = paused_by_failures(failed, most, error=one.failed_reason, now=now)
    if pause is not None:
        connection.execute(SET_PAUSE, {**pause_values(pause), **this})
    return pause is not None
