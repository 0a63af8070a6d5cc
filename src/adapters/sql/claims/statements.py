"""Statements that find and mark executions which wait, run, or should have begun."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Update,
    and_,
    bindparam,
    func,
    or_,
    select,
    update,
)

from cronhare.domain.execution import STARTABLE, Execution, State
from cronhare.domain.lifecycle.gates import GATE_KINDS
from cronhare.domain.lifecycle.redelivery import (
    MANY_RESENDS,
    Graces,
    after_resend,
    expected_after_doubt,
    expected_anew_at,
    expected_soon,
)
from cronhare.domain.schedules.schedule import LONGEST_NAME

from ..mapping.execution_rows import EXECUTION, is_in
from ..schema.named_rows import named_rows
from ..schema.tables import by_id, executions
from ..schema.types import UtcDateTime

_at = partial(bindparam, type_=UtcDateTime)
_IS_SENT_BEFORE = or_(executions.c.published_at.is_(None), executions.c.published_at < _at("since"))

#: Executions that are about to be marked, locked first: an UPDATE would wait for locked ones.
ALL = by_id(
    select(executions.c.id, executions.c.state, executions.c.attempt, executions.c.published_at)
).with_for_update()
UNLOCKED = ALL.with_for_update(skip_locked=True)
_SENT = (State.PUBLISHED, State.RETRYING)
_IS_SENT = executions.c.state.in_([state.value for state in _SENT])
#: What has its message in a queue, or should have: looked at in pages.
DOUBTABLE = (
    select(executions.c.id)
    .where(_IS_SENT, executions.c.id > bindparam("after"))
    .order_by(executions.c.id)
    .limit(bindparam("limit"))
)


def _is_doubted(state: State) -> ColumnElement[bool]:
    """Ask for what was last sent long ago: when, follows from *check_at* and the resends."""
    copies = func.coalesce(executions.c.resends, 0)
    sent_again = (
        and_(
            copies >= number if number == MANY_RESENDS else copies == number,
            executions.c.check_at < _at(f"{state.value}_{number}"),
        )
        for number in range(1, MANY_RESENDS + 1)
    )
    return and_(
        executions.c.state == state.value,
        executions.c.check_at > _at(f"{state.value}_soon"),
        or_(and_(copies <= 0, _IS_SENT_BEFORE), *sent_again),
    )


#: Of a page what waits for a time of its own, and was sent before the broker fell silent. A retry
#: is looked for at its time in any case.
DOUBTED_EARLY: Select[Any] = (
    by_id(select(executions.c.id, executions.c.next_attempt_at))
    .where(
        is_in(State.PUBLISHED),
        executions.c.next_attempt_at > _at("now"),
        executions.c.check_at >= executions.c.next_attempt_at,
        _IS_SENT_BEFORE,
    )
    .with_for_update(skip_locked=True)
)
#: Of a page what waits for no time of its own, and was sent before the broker fell silent.
DOUBTED = (
    by_id(select(executions.c.id))
    .where(
        or_(
            executions.c.next_attempt_at.is_(None),
            executions.c.next_attempt_at <= _at("now"),
        ),
        or_(*(_is_doubted(state) for state in _SENT)),
    )
    .with_for_update(skip_locked=True)
)
DOUBT = by_id(update(executions)).values(check_at=bindparam("check", type_=UtcDateTime))
POSTPONE = (
    update(executions).where(executions.c.id == bindparam("found_id")).values(check_at=_at("check"))
)
_IS_LATE = {state: executions.c.check_at <= _at(state.value) for state in sorted(STARTABLE)}
LONGEST_OVERDUE = (
    select(executions.c.id)
    .where(
        or_(*(and_(executions.c.state == state.value, late) for state, late in _IS_LATE.items()))
    )
    .order_by(executions.c.check_at, executions.c.id)
    .limit(bindparam("limit"))
)
# Chosen first and taken then, or a database that sorts would lock all that it sorted.
OVERDUE = (
    by_id(EXECUTION)
    .where(
        or_(*(and_(is_in(state), late) for state, late in _IS_LATE.items())),
    )
    .order_by(executions.c.check_at, executions.c.id)
    .with_for_update(skip_locked=True)
)
UNFINISHED = (
    EXECUTION.where(
        executions.c.state.in_(sorted(state.value for state in STARTABLE)),
        executions.c.id > bindparam("after"),
    )
    .order_by(executions.c.id)
    .limit(bindparam("limit"))
)
# What runs has a lease; saying so lets SQLite use its index of the few rows that have one.
_RUNNING = and_(executions.c.state == State.RUNNING.value, executions.c.lease_until.is_not(None))
OWNERS = select(executions.c.owner).where(_RUNNING, executions.c.owner.is_not(None)).distinct()
_HAS_LAPSED = executions.c.lease_until <= _at("now")
ONE_LAPSED = select(executions.c.id).where(_RUNNING, _HAS_LAPSED).limit(1)
LAPSED = EXECUTION.where(_RUNNING, _HAS_LAPSED).order_by(executions.c.id).limit(bindparam("limit"))
RUN_BY = (
    EXECUTION.where(_RUNNING, executions.c.owner.in_(bindparam("nodes", expanding=True)))
    .order_by(executions.c.id)
    .limit(bindparam("limit"))
)
_WAITS = executions.c.state.in_(sorted(state.value for state in STARTABLE))
_RUNS = executions.c.state == State.RUNNING.value
_HORIZON = _at("horizon")


def _has_no_time(column: ColumnElement[datetime]) -> ColumnElement[bool]:
    """Ask for a time that never comes: in SQLite it may be a text, which sorts behind any time."""
    return or_(column.is_(None), column > _HORIZON)


_STRAYS = {
    executions.c.check_at: and_(_WAITS, _has_no_time(executions.c.check_at)),
    executions.c.lease_until: and_(_RUNS, _has_no_time(executions.c.lease_until)),
}
_HELD_BY = func.coalesce(executions.c.held_by, "")
#: What is held back at no gate that there is.
_ASTRAY = and_(
    executions.c.state == State.HELD.value,
    or_(
        and_(*(_HELD_BY.not_like(f"{kind}%") for kind in GATE_KINDS)),
        func.length(_HELD_BY) > LONGEST_NAME,
    ),
)


def _regaining(stray: ColumnElement[bool], **values: object) -> tuple[Select[Any], Update]:
    """Find strays, and let somebody find them from now on."""
    found = select(executions.c.id).where(stray).limit(bindparam("limit"))
    return found, by_id(update(executions)).where(stray).values(values)


_NOW = bindparam("now", type_=UtcDateTime)
#: How to find strays, and what to write of them. For those that wait there is an index; few run.
REGAIN = [
    *(_regaining(stray, **{column.name: _NOW}) for column, stray in _STRAYS.items()),
    _regaining(_ASTRAY, state=State.CLAIMED.value, held_by=None, check_at=_NOW),
]


def doubts(since: datetime, now: datetime) -> dict[str, datetime]:
    """Give the parameters of `DOUBTED` but its ids: when a copy of *since* would be late."""
    late = {
        f"{state.value}_{number}": after_resend(number - 1, state, since)
        for state in _SENT
        for number in range(1, MANY_RESENDS + 1)
    }
    soon = {f"{state.value}_soon": expected_soon(state, now) for state in _SENT}
    return {"since": since, "now": now, **late, **soon}


def postponement(found: Execution, now: datetime, graces: Graces) -> dict[str, Any]:
    """Give the parameters of `POSTPONE`: from when on the grace counts again."""
    return {"found_id": found.id, "check": expected_anew_at(found, now, grace=graces.published)}


def postponed_by_doubt(rows: Iterable[Row[Any]], now: datetime) -> list[dict[str, Any]]:
    """Give the parameters of `POSTPONE` for those that `DOUBTED_EARLY` found."""
    return [
        {"found_id": row.id, "check": expected_after_doubt(row.next_attempt_at, now)}
        for row in rows
        if isinstance(row.next_attempt_at, datetime)
    ]


def lock_rows(
    connection: Connection, statement: Select[Any], ids: Sequence[int]
) -> Mapping[int, Row[Any]]:
    """Lock executions by `ALL` or `UNLOCKED`; gives the locked ones by id."""
    return {row.id: row for row in named_rows(connection, statement, {"ids": ids})}
