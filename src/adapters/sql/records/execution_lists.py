"""Lists of executions: found by whichever index leaves the fewest rows, then read.

A database would choose among indexes by guesses, and of a million rows the wrong one takes seconds:
so a condition that is not to choose stands in a form that no index answers.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select, union

from cronhare.domain.execution import UNFINISHED, State
from cronhare.domain.schedules.keys import ALIVE
from cronhare.domain.schedules.standalone import PREFIX
from cronhare.ports.records import ExecutionFilter

from ..mapping.exactly import exactly
from ..mapping.execution_rows import SCHEDULE_NAME, id_of_display_name
from ..schema.tables import executions, schedulers
from .archive import rows_of_task
from .claim_times import ids_between

_ROW: Final = executions.c
_IDS: Final = select(_ROW.id)
#: As `began_to_stay_alive` says of one.
_STAYS_ALIVE: Final = or_(
    _ROW.queue.startswith(PREFIX, autoescape=True),
    _ROW.execution_key.startswith(ALIVE, autoescape=True),
)

Conditions = Sequence[ColumnElement[bool]]

#: Conditions that an index answers, and in which order it is read.
Range = tuple[Conditions, ColumnElement[Any]]


def newest(connection: Connection, which: ExecutionFilter) -> Sequence[int]:
    """Find the ids of the newest executions that a filter takes, the newest first."""
    others, of_task = tuple(_others(which)), tuple(_of_task(which))
    is_of_task = (or_(*of_task),) if of_task else ()
    if which.schedule is not None:
        # Of one schedule there are so few that they can be sorted.
        ours = *_of_schedule(which.schedule), *_in_states(which), *is_of_task, *others
        return [*connection.scalars(_newest(ours, which, order=_ROW.id + 0))]
    found = ids_between(connection, which.since, which.until) if _has_times(which) else (0, 0)
    if found is None:
        return ()
    if _has_times(which):
        others = (*others, _ROW.id >= found[0], _ROW.id < found[1])
    if of_task and (not which.states or State.SUCCEEDED in which.states):
        # Nearly all have succeeded, whatever their task.
        ranges: list[Range] = [((part, *_in_states(which)), _ROW.id) for part in of_task]
    elif which.states:
        ranges = [
            ((*part, *is_of_task), order)
            for state in which.states
            for part, order in _parts_of(state)
        ]
    else:
        ranges = [((), _ROW.id)]
    return _newest_of(connection, ranges, others, which)


def _newest_of(
    connection: Connection, ranges: Sequence[Range], others: Conditions, which: ExecutionFilter
) -> Sequence[int]:
    """Take the newest of each range, and of these; a row may be in several."""
    parts = [_newest((*part, *others), which, order=order) for part, order in ranges]
    if len(parts) == 1:
        return [*connection.scalars(parts[0])]
    ids = union(*(select(part.subquery()) for part in parts)).subquery()
    return [*connection.scalars(select(ids.c.id).order_by(ids.c.id.desc()).limit(which.limit))]


def _newest(
    conditions: Conditions, which: ExecutionFilter, *, order: ColumnElement[Any] = _ROW.id
) -> Select[Any]:
    return _IDS.where(*conditions).order_by(order.desc()).limit(which.limit)


def _parts_of(state: State) -> Iterator[Range]:
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
        yield _ROW.scheduler_id.in_(select(schedulers.c.id).where(exactly(schedulers.c.name, name)))
    else:
        yield _ROW.scheduler_id == id_
        yield SCHEDULE_NAME.is_(None)


def _in_states(which: ExecutionFilter) -> Iterator[ColumnElement[bool]]:
    if which.states:
        yield func.coalesce(_ROW.state, "").in_([state.value for state in which.states])


def _has_times(which: ExecutionFilter) -> bool:
    return (which.since, which.until) != (None, None)


def _of_task(which: ExecutionFilter) -> Iterator[ColumnElement[bool]]:
    if which.task is not None:
        yield from rows_of_task(executions, which.task, which.numbers)


def _others(which: ExecutionFilter) -> Iterator[ColumnElement[bool]]:
    if which.before is not None:
        yield _ROW.id < which.before
    if which.since is not None:
        yield _ROW.executed_at >= which.since
    if which.until is not None:
        yield _ROW.executed_at < which.until
    if which.stays_alive:
        yield _STAYS_ALIVE
    if which.concurrency_key is not None:
        yield exactly(_ROW.concurrency_key, which.concurrency_key)
