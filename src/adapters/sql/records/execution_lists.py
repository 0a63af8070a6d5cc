"""Lists of executions: found by whichever index leaves the fewest rows, then read.

A database would choose among indexes by guesses, and of a million rows the wrong one takes seconds:
so a condition that is not to choose stands in a form that no index answers.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, func, select, union_all

from cronhare.domain.execution import UNFINISHED, State
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.records import ExecutionFilter

from ..mapping.execution_rows import SCHEDULE_NAME, id_of_display_name
from ..schema.tables import executions, schedulers
from .claim_times import ids_between
from .failure_conditions import is_of_task

_ROW: Final = executions.c
_IDS: Final = select(_ROW.id)

Conditions = Sequence[ColumnElement[bool]]


def newest(connection: Connection, which: ExecutionFilter) -> Sequence[int]:
    """Find the ids of the newest executions that a filter takes, the newest first."""
    others = tuple(_others(which))
    if which.schedule is not None:
        # Of one schedule there are so few that they can be sorted.
        ours = *_of_schedule(which.schedule), *_in_states(which), *others
        return [*connection.scalars(_newest(ours, which, order=_ROW.id + 0))]
    found = ids_between(connection, which.since, which.until) if _has_times(which) else (0, 0)
    if found is None:
        return ()
    if _has_times(which):
        others = (*others, _ROW.id >= found[0], _ROW.id < found[1])
    if not which.states:
        return [*connection.scalars(_newest(others, which))]
    if _is_named(which.task) and State.SUCCEEDED in which.states:
        # Nearly all have succeeded, whatever their task.
        return [*connection.scalars(_newest((*_in_states(which), *others), which))]
    parts = [
        select(_newest((*part, *others), which, order=order).subquery())
        for state in which.states
        for part, order in _parts_of(state)
    ]
    ids = union_all(*parts).subquery()
    return [*connection.scalars(select(ids.c.id).order_by(ids.c.id.desc()).limit(which.limit))]


def _newest(
    conditions: Conditions, which: ExecutionFilter, *, order: ColumnElement[Any] = _ROW.id
) -> Select[Any]:
    return _IDS.where(*conditions).order_by(order.desc()).limit(which.limit)


def _parts_of(state: State) -> Iterator[tuple[Conditions, ColumnElement[Any]]]:
    """Give ranges of the index (state, check_at), each with the order in which it is read.

    What has ended is nearly all in one range, in the order of its ids. The others are few enough to
    be sorted; told to take the newest of them, PostgreSQL would look for them among all.
    """
    is_it = _ROW.state == state.value
    if state in UNFINISHED:
        yield (is_it,), _ROW.id + 0
        return
    yield (is_it, _ROW.check_at.is_(None)), _ROW.id
    yield (is_it, _ROW.check_at.is_not(None)), _ROW.id + 0


def _of_schedule(name: str) -> Iterator[ColumnElement[bool]]:
    id_ = id_of_display_name(name)
    if id_ is None:
        yield _ROW.scheduler_id.in_(select(schedulers.c.id).where(schedulers.c.name == name))
    else:
        yield _ROW.scheduler_id == id_
        yield SCHEDULE_NAME.is_(None)


def _in_states(which: ExecutionFilter) -> Iterator[ColumnElement[bool]]:
    if which.states:
        yield func.coalesce(_ROW.state, "").in_([state.value for state in which.states])


def _has_times(which: ExecutionFilter) -> bool:
    return (which.since, which.until) != (None, None)


def _is_named(task: str | None) -> bool:
    return task is not None and TaskRef.read(task) is None


def _others(which: ExecutionFilter) -> Iterator[ColumnElement[bool]]:
    if which.before is not None:
        yield _ROW.id < which.before
    if which.since is not None:
        yield _ROW.executed_at >= which.since
    if which.until is not None:
        yield _ROW.executed_at < which.until
    if which.task is not None:
        # A name has an index of its own.
        is_named = _is_named(which.task)
        yield _ROW.task_name == which.task if is_named else is_of_task(executions, which.task)
    if which.concurrency_key is not None:
        yield _ROW.concurrency_key == which.concurrency_key
