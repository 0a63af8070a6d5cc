"""Claims in SQL."""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    and_,
    bindparam,
    func,
    or_,
    select,
    tuple_,
    update,
)

from cronhare.domain.execution import STARTABLE, Execution, State
from cronhare.ports.claims import Batch, Graces, Planner
from cronhare.ports.clock import ClockPort

from .carrying_out import carry_out, look
from .database import Database, repeatable
from .drafts import STAMP
from .rows import EXECUTION, LARGEST_ID, executions_of
from .tables import executions, plans, schedulers
from .types import HandWritten, UtcDateTime

#: A message that was not needed twice is looked for again at the latest after so long.
LONGEST_WAIT = timedelta(days=1)

#: A retry that was sent again is given so long to be started.
RESENT_WAIT = timedelta(minutes=5)

#: A place in the order in which schedules were written: updated_at, and the id.
Place = tuple[object, int]

_BEFORE_ALL: Place = (datetime(1, 1, 1, tzinfo=UTC), 0)


def _after(
    moment: ColumnElement[datetime], id_: ColumnElement[int], kind: type[UtcDateTime]
) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Find the rows behind a place, whose parameters are `at` and `id`.

    Said twice: MySQL sees no range of an index in a comparison of pairs, SQLite none in OR.
    """
    at, after = bindparam("at", type_=kind), bindparam("id", type_=BigInteger)
    return tuple_(moment, id_) > tuple_(at, after), or_(
        moment > at, and_(moment == at, id_ > after)
    )


_IS_DUE = plans.c.next_due_at <= bindparam("now", type_=UtcDateTime)
_NEXT_DUE = select(func.min(plans.c.next_due_at))
_DUE = (
    select(plans)
    .where(_IS_DUE, *_after(plans.c.next_due_at, plans.c.scheduler_id, UtcDateTime))
    .order_by(plans.c.next_due_at, plans.c.scheduler_id)
    .limit(bindparam("limit"))
)
_EDITED = (
    look()
    .select_from(schedulers.outerjoin(plans, schedulers.c.id == plans.c.scheduler_id))
    .where(
        STAMP.is_distinct_from(plans.c.planned_at),
        *_after(schedulers.c.updated_at, schedulers.c.id, HandWritten),
    )
    .order_by(schedulers.c.updated_at, schedulers.c.id)
    .limit(bindparam("limit"))
)

_THE_TOLD_ATTEMPT = and_(
    executions.c.id == bindparam("told_id"), executions.c.attempt == bindparam("told_attempt")
)
_MARK_CLAIMED = (
    update(executions)
    .where(_THE_TOLD_ATTEMPT, executions.c.state == State.CLAIMED.value)
    .values(
        state=State.PUBLISHED.value,
        published_at=func.coalesce(executions.c.published_at, bindparam("now", type_=UtcDateTime)),
        check_at=bindparam("check", type_=UtcDateTime),
        version=executions.c.version + 1,
    )
)
_MARK_RETRYING = (
    update(executions)
    .where(_THE_TOLD_ATTEMPT, executions.c.state == State.RETRYING.value)
    .values(check_at=bindparam("check", type_=UtcDateTime))
)
_POSTPONE = (
    update(executions)
    .where(executions.c.id == bindparam("found_id"))
    .values(check_at=bindparam("check", type_=UtcDateTime))
)
_IS_OVERDUE = or_(
    *(
        and_(
            executions.c.state == state.value,
            executions.c.check_at <= bindparam(state.value, type_=UtcDateTime),
        )
        for state in sorted(STARTABLE)
    )
)
_LONGEST_OVERDUE = (
    select(executions.c.id)
    .where(_IS_OVERDUE)
    .order_by(executions.c.check_at, executions.c.id)
    .limit(bindparam("limit"))
)
# Chosen first and taken then, or a database that sorts would hold all that it sorted.
_CHOSEN = _LONGEST_OVERDUE.subquery("chosen")
_OVERDUE = (
    EXECUTION.join(_CHOSEN, _CHOSEN.c.id == executions.c.id)
    .where(_IS_OVERDUE)
    .order_by(executions.c.check_at, executions.c.id)
)
_UNFINISHED = (
    EXECUTION.where(
        executions.c.state.in_(sorted(state.value for state in STARTABLE)),
        executions.c.id > bindparam("after"),
    )
    .order_by(executions.c.id)
    .limit(bindparam("limit"))
)
# What runs has a lease; saying so lets SQLite use its index of the few rows that have one.
_RUNNING = and_(executions.c.state == State.RUNNING.value, executions.c.lease_until.is_not(None))
_OWNERS = select(executions.c.owner).where(_RUNNING, executions.c.owner.is_not(None)).distinct()
_LAPSED = (
    EXECUTION.where(
        _RUNNING,
        or_(
            executions.c.lease_until <= bindparam("now", type_=UtcDateTime),
            executions.c.owner.in_(bindparam("gone", expanding=True)),
        ),
    )
    .order_by(executions.c.id)
    .limit(bindparam("limit"))
)


class SqlClaimStore:
    """Satisfies `ClaimStorePort`. What has a method here is one transaction."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """See `Database`."""
        self._database = Database(engine, clock)
        self._due = _schedules_of(self._database.vendor.held(_DUE, pass_over=True))
        self._overdue = self._database.vendor.held(_OVERDUE, pass_over=True)
        self._resume_at = _BEFORE_ALL
        self._taken_to = _BEFORE_ALL

    @repeatable
    def now(self) -> datetime:
        """See `ClaimStorePort.now`."""
        return self._database.now()

    @repeatable
    def claim_due(self, *, now: datetime, limit: int, node: str, planner: Planner) -> Batch:
        """See `ClaimStorePort.claim_due`.

        After a full page the next look begins behind it: a plan that was moved leaves its old
        entry in the index until InnoDB finds the time to purge it, and to pass over 10,000 of
        those takes longer than to claim 1,000. Nothing depends on it: a short page ends it.
        """
        after, self._taken_to = self._taken_to, _BEFORE_ALL
        asked = {"now": now, "at": after[0], "id": after[1], "limit": limit}
        with self._database.write("claiming what is due") as connection:
            looks = self._database.vendor.read(connection, self._due, asked)
            batch = self._carry_out(connection, looks, now, node, planner)
        if len(looks) == limit:
            self._taken_to = (looks[-1].next_due_at, looks[-1].planned_id)
        return batch

    @repeatable
    def plan_edited(
        self, *, now: datetime, since: datetime | None, limit: int, node: str, planner: Planner
    ) -> Batch:
        """See `ClaimStorePort.plan_edited`."""
        floor = _BEFORE_ALL if since is None else (since, LARGEST_ID)
        with self._database.read("looking for edited schedules") as connection:
            if not self._edited(connection, floor, 1):
                return Batch()
        with self._database.write("planning edited schedules") as connection:
            looks = self._edited(connection, floor, limit)
            batch = self._carry_out(connection, looks, now, node, planner)
        there_may_be_more = len(looks) == limit
        self._resume_at = (looks[-1].updated_at, looks[-1].id) if there_may_be_more else _BEFORE_ALL
        return batch

    @repeatable
    def next_due(self) -> datetime | None:
        """See `ClaimStorePort.next_due`."""
        with self._database.read("looking for the next due instant") as connection:
            found: datetime | None = connection.scalar(_NEXT_DUE)
        return found

    @repeatable
    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `ClaimStorePort.mark_published`."""
        claimed = sorted(_claimed_marks(executions, now), key=itemgetter("told_id"))
        resent = sorted(_resent_marks(executions, now), key=itemgetter("told_id"))
        vendor = self._database.vendor
        with self._database.write("marking what was published") as connection:
            vendor.update_many(connection, _MARK_CLAIMED, claimed)
            vendor.update_many(connection, _MARK_RETRYING, resent)

    @repeatable
    def overdue(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.overdue`. Most looks find nothing, and take no lock."""
        until = {
            State.CLAIMED.value: now - graces.claimed,
            State.RETRYING.value: now - graces.retrying,
            State.PUBLISHED.value: now - graces.published,
        }
        with self._database.read("looking for what is overdue") as connection:
            if connection.execute(_LONGEST_OVERDUE, {**until, "limit": 1}).first() is None:
                return ()
        with self._database.write("taking what is overdue") as connection:
            rows = connection.execute(self._overdue, {**until, "limit": limit})
            found = executions_of(connection, rows)
            checks = [{"found_id": one.id, "check": _next_check(one, now, graces)} for one in found]
            self._database.vendor.update_many(connection, _POSTPONE, checks)
            return found

    @repeatable
    def unfinished(self, *, after: int, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.unfinished`."""
        with self._database.read("listing what is unfinished") as connection:
            rows = connection.execute(_UNFINISHED, {"after": after, "limit": limit})
            return executions_of(connection, rows)

    @repeatable
    def owners(self) -> Collection[str]:
        """See `ClaimStorePort.owners`."""
        with self._database.read("listing the nodes at work") as connection:
            return frozenset(connection.scalars(_OWNERS))

    @repeatable
    def lapsed(
        self, *, now: datetime, limit: int, gone: Collection[str] = ()
    ) -> Sequence[Execution]:
        """See `ClaimStorePort.lapsed`."""
        with self._database.read("looking for lapsed leases") as connection:
            asked = {"now": now, "limit": limit, "gone": list(gone)}
            return executions_of(connection, connection.execute(_LAPSED, asked))

    def _carry_out(
        self,
        connection: Connection,
        looks: Sequence[Row[Any]],
        now: datetime,
        node: str,
        planner: Planner,
    ) -> Batch:
        vendor = self._database.vendor
        return carry_out(connection, vendor, looks, now=now, node=node, planner=planner)

    def _edited(self, connection: Connection, floor: Place, limit: int) -> Sequence[Row[Any]]:
        """Find edited schedules, going on where the last full page ended.

        Without that, planning 100,000 new schedules page by page would compare those that are
        planned again for every page. Nothing depends on it: a short page is looked for anew.
        """
        resume_at = self._resume_at
        if resume_at is not _BEFORE_ALL:
            page = self._page(connection, resume_at, limit)
            if len(page) == limit and _is_later(resume_at, floor):
                return page
        return self._page(connection, floor, limit)

    def _page(self, connection: Connection, after: Place, limit: int) -> Sequence[Row[Any]]:
        at, id_ = after
        asked = {"at": at, "id": id_, "limit": limit}
        return self._database.vendor.read(connection, _EDITED, asked)


def _schedules_of(due: Select[Any]) -> Select[Any]:
    """Read plans with their schedules. Only the plans are held: the schedules are people's."""
    taken = due.subquery("taken")
    return (
        look(taken)
        .select_from(taken.outerjoin(schedulers, schedulers.c.id == taken.c.scheduler_id))
        .order_by(taken.c.next_due_at, taken.c.scheduler_id)
    )


def _is_later(place: Place, floor: Place) -> bool:
    match place, floor:
        case (datetime() as at, int(id_)), (datetime() as floor_at, int(floor_id)):
            return (at, id_) > (floor_at, floor_id)
    return False


def _claimed_marks(told: Sequence[Execution], now: datetime) -> Iterator[dict[str, Any]]:
    for one in told:
        if one.state is not State.RETRYING:
            yield {
                "told_id": one.id,
                "told_attempt": one.attempt,
                "now": now,
                "check": max(one.next_attempt_at or now, now),
            }


def _resent_marks(told: Sequence[Execution], now: datetime) -> Iterator[dict[str, Any]]:
    """A retry whose message still waits for its time is looked for at that time, as before."""
    for one in told:
        if one.state is State.RETRYING and (one.next_attempt_at or now) <= now:
            yield {"told_id": one.id, "told_attempt": one.attempt, "check": now + RESENT_WAIT}


def _next_check(found: Execution, now: datetime, graces: Graces) -> datetime:
    """Say from when on the grace counts again."""
    if found.state is not State.PUBLISHED:
        return now
    waited = now - (found.published_at or now)
    return now + min(max(2 * waited, graces.published), LONGEST_WAIT) - graces.published
