"""Statements that select plans and schedules in pages, each behind the one before."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, and_, bindparam, func, or_, select, tuple_

from ..mapping.schedule_rows import STAMP
from ..schema.tables import plans, schedulers
from ..schema.types import HandWritten, UtcDateTime
from .apply_plans import select_schedules, with_pauses

#: A place in the order in which schedules were written: updated_at, and the id.
Place = tuple[object, int]

BEFORE_ALL: Place = (datetime(1, 1, 1, tzinfo=UTC), 0)


def _after(
    moment: ColumnElement[datetime], id_: ColumnElement[int], kind: type[UtcDateTime]
) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Find the rows behind a place, whose parameters are `at` and `id`.

    Both conditions say the same: MySQL uses no index range for pairs, SQLite none for OR.
    """
    at, after = bindparam("at", type_=kind), bindparam("id", type_=BigInteger)
    return tuple_(moment, id_) > tuple_(at, after), or_(
        moment > at, and_(moment == at, id_ > after)
    )


_IS_DUE = plans.c.next_due_at <= bindparam("until", type_=UtcDateTime)
NEXT_DUE = select(func.min(plans.c.next_due_at))
NEXT_DUE_AFTER = NEXT_DUE.where(plans.c.next_due_at > bindparam("after", type_=UtcDateTime))
DUE = (
    select(plans)
    # Until MySQL has counted a new table's rows it would read, and lock, every plan.
    .with_hint(plans, "FORCE INDEX (ix_plan_next_due_at)", "mysql")
    .where(_IS_DUE, *_after(plans.c.next_due_at, plans.c.scheduler_id, UtcDateTime))
    .order_by(plans.c.next_due_at, plans.c.scheduler_id)
    .limit(bindparam("limit"))
)
EDITED = (
    select_schedules()
    .select_from(with_pauses(schedulers.outerjoin(plans, schedulers.c.id == plans.c.scheduler_id)))
    .where(
        STAMP.is_distinct_from(plans.c.planned_at),
        *_after(schedulers.c.updated_at, schedulers.c.id, HandWritten),
    )
    .order_by(schedulers.c.updated_at, schedulers.c.id)
    .limit(bindparam("limit"))
)
PROBLEMS = (
    select_schedules()
    .select_from(with_pauses(schedulers.join(plans, schedulers.c.id == plans.c.scheduler_id)))
    .where(plans.c.problem.is_not(None), plans.c.scheduler_id > bindparam("after"))
    .order_by(plans.c.scheduler_id)
    .limit(bindparam("limit"))
)
PROBLEMS_OF_LATE = PROBLEMS.where(
    schedulers.c.updated_at > bindparam("since", type_=HandWritten), plans.c.next_due_at.is_(None)
)


def schedules_of(due: Select[Any]) -> Select[Any]:
    """Read plans with their schedules, locking the plans alone: people edit the schedules."""
    taken = due.subquery("taken")
    return (
        select_schedules(taken)
        .select_from(
            with_pauses(taken.outerjoin(schedulers, schedulers.c.id == taken.c.scheduler_id))
        )
        .order_by(taken.c.next_due_at, taken.c.scheduler_id)
    )


def is_later(place: Place, floor: Place) -> bool:
    """Tell whether a place lies behind another; one from a broken row does not."""
    match place, floor:
        case (datetime() as at, int(id_)), (datetime() as floor_at, int(floor_id)):
            return (at, id_) > (floor_at, floor_id)
    return False
