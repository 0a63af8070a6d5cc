"""Pages of schedules: which are due, edited or could not be planned, and who waits for a clock."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    Select,
    and_,
    bindparam,
    func,
    or_,
    select,
    tuple_,
)

from cronhare.domain.schedules.planning import Plan, Planned, Planner
from cronhare.ports.claims import Batch

from ..cooldown import Cooldown
from ..rows.executions import display_name
from ..rows.schedules import STAMP
from ..schema.tables import plans, schedulers
from ..schema.types import HandWritten, UtcDateTime
from .plans import select_schedules


class Page:
    """The schedules that one call looks at.

    Of those with a reason, and of those that were refused of late and not edited since, it only
    says what is wrong.
    """

    def __init__(self, planner: Planner, problems: Cooldown, *, limit: int, now: datetime) -> None:
        """*problems* are the schedules that were refused of late, each with the reason."""
        self.now = now
        self.was_locked = False
        self.reasons: dict[int, str] = {}
        self._planner = planner
        self._problems = problems
        self._of_late = problems.at(now)
        self._limit = limit
        self._rows: Sequence[Row[Any]] = ()

    @property
    def names(self) -> Mapping[int, str]:
        """The schedules by id, in the order in which they were found."""
        ids = [row.id or row.planned_id for row in self._rows]
        return {id_: display_name(row.name, id_) for id_, row in zip(ids, self._rows, strict=True)}

    @property
    def is_full(self) -> bool:
        """Whether there may be more behind it."""
        return len(self._rows) == self._limit

    def note(self, rows: Sequence[Row[Any]], only: Sequence[int] | None) -> None:
        """Take note of what was found, unless it is a part of that: *only* some."""
        if only is None:
            self._rows = rows

    def plan(self, planned: Planned) -> Plan:
        """Plan a schedule, or say what is wrong."""
        id_ = planned.schedule.id
        reason = self.reasons.get(id_)
        if reason is None and planned.edited:
            self._problems.forget(id_)
        elif reason is None:
            reason = self._of_late.get(id_)
        return self._planner(planned) if reason is None else Plan(problem=reason)


def joined(batches: Sequence[Batch]) -> Batch:
    """Join what several transactions did."""
    return Batch(
        looked=sum(one.looked for one in batches),
        claimed=tuple(chain.from_iterable(one.claimed for one in batches)),
        held=sum(one.held for one in batches),
        skipped=sum(one.skipped for one in batches),
        problems=tuple(chain.from_iterable(one.problems for one in batches)),
        busy=sum(one.busy for one in batches),
        gates=tuple(chain.from_iterable(one.gates for one in batches)),
    )


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
    .select_from(schedulers.outerjoin(plans, schedulers.c.id == plans.c.scheduler_id))
    .where(
        STAMP.is_distinct_from(plans.c.planned_at),
        *_after(schedulers.c.updated_at, schedulers.c.id, HandWritten),
    )
    .order_by(schedulers.c.updated_at, schedulers.c.id)
    .limit(bindparam("limit"))
)
PROBLEMS = (
    select_schedules()
    .select_from(schedulers.join(plans, schedulers.c.id == plans.c.scheduler_id))
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
        .select_from(taken.outerjoin(schedulers, schedulers.c.id == taken.c.scheduler_id))
        .order_by(taken.c.next_due_at, taken.c.scheduler_id)
    )


def is_later(place: Place, floor: Place) -> bool:
    """Tell whether a place lies behind another; one from a broken row does not."""
    match place, floor:
        case (datetime() as at, int(id_)), (datetime() as floor_at, int(floor_id)):
            return (at, id_) > (floor_at, floor_id)
    return False
