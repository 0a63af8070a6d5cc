"""Claims in SQL: what is due, edited or could not be planned, page by page."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any, Final

import attrs
import sqlalchemy as sa

from cronhare.application.logs import say
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.retries.limits import BudgetPolicy
from cronhare.domain.schedules.planning import Planner
from cronhare.ports.claims import Batch
from cronhare.ports.system import ClockPort

from ..database import Database, repeatable, repeatable_unless_locked
from ..dialect import Cooldown, Locked, excluding, hurry
from ..gates import LettingGo
from ..tables.executions import display_name
from ..tables.schedules import STAMP, select_schedules
from ..tables.tables import FOUND_BY_KEY, IDS, plans, schedulers
from ..tables.types import HandWritten, UtcDateTime, moment_of
from ..writing import REFUSED, Written, write_each
from .ends import AskedEnds, PublishedMarks, UnconfirmedEnds
from .plans import apply_plans
from .reconciliation import ReconcilerQueries

log = logging.getLogger(__name__)


Rows = Sequence[sa.Row[Any]]


class Page:
    """The schedules that one call looks at."""

    def __init__(self, planner: Planner, *, limit: int, now: datetime) -> None:
        self.planner = planner
        self.limit = limit
        self.now = now
        self.was_locked = False
        self._rows: Rows = ()

    @property
    def names(self) -> Mapping[int, str]:
        ids = ((row.id or row.planned_id, row.name) for row in self._rows)
        return {id_: display_name(name, id_) for id_, name in ids}

    @property
    def is_full(self) -> bool:
        return len(self._rows) == self.limit

    def note(self, rows: Rows, only: Sequence[int] | None) -> None:
        """Take note of what was found, unless it is a part of that: *only* some."""
        if only is None:
            self._rows = rows


def joined(batches: Sequence[Batch]) -> Batch:
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
    moment: sa.ColumnElement[datetime], id_: sa.ColumnElement[int], kind: type[UtcDateTime]
) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Find the rows behind a place, whose parameters are `at` and `id`.

    Both conditions say the same: MySQL uses no index range for pairs, SQLite none for OR.
    """
    at, after = sa.bindparam("at", type_=kind), sa.bindparam("id", type_=sa.BigInteger)
    return sa.tuple_(moment, id_) > sa.tuple_(at, after), sa.or_(
        moment > at, sa.and_(moment == at, id_ > after)
    )


_IS_DUE = plans.c.next_due_at <= moment_of("until")
NEXT_DUE = sa.select(sa.func.min(plans.c.next_due_at))
NEXT_DUE_AFTER = NEXT_DUE.where(plans.c.next_due_at > moment_of("after"))
DUE = (
    sa.select(plans)
    # Until MySQL has counted a new table's rows it would read, and lock, every plan.
    .with_hint(plans, "FORCE INDEX (ix_plan_next_due_at)", "mysql")
    .where(_IS_DUE, *_after(plans.c.next_due_at, plans.c.scheduler_id, UtcDateTime))
    .order_by(plans.c.next_due_at, plans.c.scheduler_id)
    .limit(sa.bindparam("limit"))
)
EDITED = (
    select_schedules()
    .select_from(schedulers.outerjoin(plans, schedulers.c.id == plans.c.scheduler_id))
    .where(
        STAMP.is_distinct_from(plans.c.planned_at),
        *_after(schedulers.c.updated_at, schedulers.c.id, HandWritten),
    )
    .order_by(schedulers.c.updated_at, schedulers.c.id)
    .limit(sa.bindparam("limit"))
)
PROBLEMS = (
    select_schedules()
    .select_from(schedulers.join(plans, schedulers.c.id == plans.c.scheduler_id))
    .where(plans.c.problem.is_not(None), plans.c.scheduler_id > sa.bindparam("after"))
    .order_by(plans.c.scheduler_id)
    .limit(sa.bindparam("limit"))
)
PROBLEMS_OF_LATE = PROBLEMS.where(
    schedulers.c.updated_at > sa.bindparam("since", type_=HandWritten),
    plans.c.next_due_at.is_(None),
)


def schedules_of(due: sa.Select[Any]) -> sa.Select[Any]:
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


_DUE: Final = schedules_of(DUE.with_for_update(skip_locked=True))
#: Takes what is due of a page: its first schedules, or of those it found before *only* these.
Take = Callable[[Page, Sequence[int] | None], Batch]

UNLOCKED_PLANS: Final = (
    sa.select(plans.c.scheduler_id)
    .where(plans.c.scheduler_id.in_(IDS))
    .with_hint(plans, FOUND_BY_KEY, "mysql")
    .with_for_update(skip_locked=True)
)


class SqlClaimStore(ReconcilerQueries, AskedEnds, PublishedMarks, UnconfirmedEnds, LettingGo):
    """Satisfies `ClaimStorePort`; the methods about plans are here, the others are inherited.

    What is repeatable is one transaction, after a look for it. Of what the database refuses, each
    part that is tried again is one (ADR 15).
    """

    def __init__(
        self,
        engine: sa.Engine,
        clock: ClockPort,
        *,
        judge: str = "",
        late: BudgetPolicy | None = None,
    ) -> None:
        """*judge* signs what it says of schedules; *late* runs begin as that has places."""
        super().__init__(Database(engine, clock))
        self._judge = judge
        self._late = late
        self._resting_plans = Cooldown()  # of executions all stores know

        self._held: dict[int, str] = {}  # names of schedules that rest as somebody has them locked
        self._resume_at = BEFORE_ALL
        self._taken_to: dict[bool, Place] = {}

    def claim_due(
        self,
        *,
        now: datetime,
        limit: int,
        node: str,
        planner: Planner,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Batch:
        """See `ClaimStorePort.claim_due`.

        After a full page the next look begins behind it: a plan that was moved leaves its old
        index entry until InnoDB purges it, and skipping 10,000 of these takes longer than claiming
        1,000. Nothing depends on it: a short page ends it.
        """
        floor = BEFORE_ALL if since is None else (since, LARGEST_ID)
        taken_to = self._taken_to.pop(since is None, floor)
        after = taken_to if is_later(taken_to, floor) else floor

        @repeatable_unless_locked
        def take(page: Page, only: Sequence[int] | None) -> Batch:
            at, id_ = after
            asked = {"until": until or now, "at": at, "id": id_, "limit": limit}
            with self._database.write("claiming what is due") as connection:
                rows = self._database.dialect.read(connection, self._due_at(now, only), asked)
                page.note(rows, only)
                batch = self._apply(connection, page, rows, now=now, node=node)
            if batch.more and only is None:
                last = rows[batch.looked - 1]
                self._taken_to[since is None] = (last.next_due_at, last.planned_id)
            return batch

        return self._take(Page(planner, limit=limit, now=now), take)

    def plan_edited(
        self, *, now: datetime, since: datetime | None, limit: int, node: str, planner: Planner
    ) -> Batch:
        floor = BEFORE_ALL if since is None else (since, LARGEST_ID)
        page = Page(planner, limit=limit, now=now)
        find = partial(self._edited, floor=floor)
        batch, looked = self._plan(page, EDITED, schedulers.c.id, find, node)
        self._resume_at = BEFORE_ALL
        if batch.more and looked:
            self._resume_at = (looked[-1].updated_at, looked[-1].id)
        return attrs.evolve(batch, busy=len(self._resting_plans.at(now)))

    def plan_problems(
        self,
        *,
        now: datetime,
        since: datetime | None,
        after: int,
        limit: int,
        node: str,
        planner: Planner,
    ) -> tuple[Batch, int]:
        problems = PROBLEMS if since is None else PROBLEMS_OF_LATE
        bounds = {"after": after} if since is None else {"after": after, "since": since}
        page = Page(planner, limit=limit, now=now)

        def find(connection: sa.Connection, those: sa.Select[Any], most: int) -> Rows:
            return self._database.dialect.read(connection, those, {**bounds, "limit": most})

        batch, looked = self._plan(page, problems, plans.c.scheduler_id, find, node)
        return batch, max([after, *(row.id for row in looked)])

    def _plan(
        self,
        page: Page,
        statement: sa.Select[Any],
        id_: sa.ColumnElement[int],
        find: Callable[[sa.Connection, sa.Select[Any], int], Rows],
        node: str,
    ) -> tuple[Batch, Rows]:
        """Plan a page anew, and give what was looked at. Most looks find nothing, and lock none."""
        looked: list[sa.Row[Any]] = []

        @repeatable_unless_locked
        def take(page: Page, only: Sequence[int] | None) -> Batch:
            those = self._among(statement, id_, page.now, only)
            with self._database.read("looking for schedules to plan") as connection:
                if not find(connection, those, 1):
                    return Batch()
            with self._database.write("planning schedules") as connection:
                found = find(connection, those, page.limit)
                page.note(found, only)
                free = self._unlocked(connection, found, page.now)
                batch = self._apply(connection, page, free, now=page.now, node=node)
            looked.extend(free[: batch.looked])
            return batch

        return self._take(page, take), looked

    @repeatable
    def next_due(self, *, after: datetime | None = None) -> datetime | None:
        statement = NEXT_DUE if after is None else NEXT_DUE_AFTER
        with self._database.read("looking for the next due instant") as connection:
            found: datetime | None = connection.scalar(
                statement, {} if after is None else {"after": after}
            )
        return found

    def _take(self, page: Page, take: Take) -> Batch:
        """Take a page; if that fails, halves of it, until those that are to blame are alone.

        A schedule that is refused alone rests for a minute, and so does one that is locked.
        """
        try:
            batch = take(page, None)
        except (*REFUSED, Locked) as error:
            if not (names := page.names):
                raise
            page.was_locked = isinstance(error, Locked)
            # Others may be due, too: what is left of this page is found again.
            batch = attrs.evolve(joined(self._take_halves(page, names, take)), more=True)
        if self._held:
            self._say_free(page)
        return batch

    def _take_halves(self, page: Page, names: Mapping[int, str], take: Take) -> Sequence[Batch]:
        def write(part: Sequence[int]) -> Written[Batch]:
            batch = take(page, part)
            return Written([batch], changed=batch.looked > 0)

        def refused(id_: int, why: Exception) -> Sequence[Batch]:
            self._resting_plans.note(id_, page.now)
            what = "is passed over for a minute, as the ledger refuses what is to be written"
            text = f"Schedule {names[id_]} {what}: {why}"
            say(log, logging.ERROR, "schedule.refused", text)
            return ()

        def held(id_: int) -> Sequence[Batch]:
            self._resting_plans.note(id_, page.now)
            name = self._held[id_] = names[id_]
            text = f"Schedule {name} is put off for a minute: somebody keeps its rows locked"
            say(log, logging.WARNING, "schedule.held", text)
            return ()

        return write_each([*names], write, refused=refused, locked=held, untried=lambda _: ())

    def _say_free(self, page: Page) -> None:
        resting = self._resting_plans.at(page.now)
        for id_ in page.names:
            if id_ not in resting and (name := self._held.pop(id_, None)) is not None:
                text = f"Schedule {name} is put off no more: it could be taken"
                say(log, logging.INFO, "schedule.back", text)

    def _apply(
        self,
        connection: sa.Connection,
        page: Page,
        rows: Rows,
        *,
        now: datetime,
        node: str,
    ) -> Batch:
        if page.was_locked:  # it waited for one lock, and need not wait for each of its parts
            hurry(connection)
        batch = apply_plans(
            connection,
            rows,
            now=now,
            node=node,
            planner=page.planner,
            judge=self._judge,
            late=self._late,
        )
        return attrs.evolve(batch, more=page.is_full or batch.looked < len(rows))

    def _due_at(self, now: datetime, only: Sequence[int] | None) -> sa.Select[Any]:
        due = self._among(DUE, plans.c.scheduler_id, now, only)
        if due is DUE:  # nearly always
            return _DUE
        return schedules_of(due.with_for_update(skip_locked=True))

    def _among(
        self,
        statement: sa.Select[Any],
        id_: sa.ColumnElement[int],
        now: datetime,
        only: Sequence[int] | None,
    ) -> sa.Select[Any]:
        if only is not None:
            return statement.where(id_.in_(only))
        return excluding(statement, id_, self._resting_plans.at(now))

    def _unlocked(self, connection: sa.Connection, found: Rows, now: datetime) -> Rows:
        """Lock the plans of schedules, and leave out those that somebody has locked: they rest."""
        planned = [row.id for row in found if row.planned_id is not None]
        free = set(connection.scalars(UNLOCKED_PLANS, {"ids": planned})) if planned else set()
        for id_ in planned:
            if id_ not in free:
                self._resting_plans.note(id_, now)
        return [row for row in found if row.planned_id is None or row.id in free]

    def _edited(
        self, connection: sa.Connection, edited: sa.Select[Any], limit: int, *, floor: Place
    ) -> Rows:
        """Find edited schedules, going on where the last full page ended.

        Otherwise planning 100,000 new schedules would compare those that are planned again for
        every page. Nothing depends on it: a short page is looked for anew.
        """
        page: Rows = ()
        places = [floor]
        if is_later(self._resume_at, floor):
            places = [self._resume_at, floor]
        for at, id_ in places:
            if len(page) < limit:
                asked = {"at": at, "id": id_, "limit": limit}
                page = self._database.dialect.read(connection, edited, asked)
        return page
