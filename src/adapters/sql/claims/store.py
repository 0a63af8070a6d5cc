"""Claims in SQL: plans are claimed here, and what becomes of claims has rooms of its own."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import attrs
from sqlalchemy import Connection, Engine, Row, Select

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import Ended
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.messages.messages import LARGEST_ID, AttemptRef
from cronhare.domain.schedules.planning import Planner
from cronhare.ports.claims import Batch
from cronhare.ports.clock import ClockPort

from ..cooldown import (
    Cooldown,
    excluding,
)
from ..mapping.schedule_rows import moment_or_long_ago
from ..schema.tables import plans, schedulers
from ..transactions.database import Database, repeatable
from . import pages
from .apply_plans import apply_plans
from .page_bisection import (
    PageBisection,
    PagePlanner,
)
from .plan_locks import PlanLocks
from .published_marks import PublishedMarks
from .reconciliation import ReconcilerQueries
from .unconfirmed_ends import UnconfirmedEnds


class SqlClaimStore:
    """Satisfies `ClaimStorePort`. What is repeatable here is one transaction, after a look for it.

    Of what the database refuses, each part that is tried again is one (ADR 31).
    """

    def __init__(self, engine: Engine, clock: ClockPort, *, judge: str = "") -> None:
        """See `Database`. *judge* stands beside what this replica cannot plan: which one it is."""
        self._judge = judge
        self._database = Database(engine, clock)
        self._due = pages.schedules_of(pages.DUE.with_for_update(skip_locked=True))
        refused = Cooldown()  # schedules; of executions all stores know
        lately = Cooldown()
        self._due_pages = PageBisection(refused, lately)
        self._edit_pages = PageBisection(refused, lately)
        self._free_plans = PlanLocks(self._database)
        self._marks, self._found = PublishedMarks(self._database), ReconcilerQueries(self._database)
        self._ends = UnconfirmedEnds(self._database)
        self._resume_at = pages.BEFORE_ALL
        self._taken_to: dict[bool, pages.Place] = {}

    @repeatable
    def now(self) -> datetime:
        """See `ClaimStorePort.now`."""
        return self._database.now()

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
        entry in the index until InnoDB finds the time to purge it, and to pass over 10,000 of
        those takes longer than to claim 1,000. Nothing depends on it: a short page ends it.
        """
        floor = pages.BEFORE_ALL if since is None else (since, LARGEST_ID)
        taken_to = self._taken_to.pop(since is None, floor)
        after = taken_to if pages.is_later(taken_to, floor) else floor

        @repeatable
        def take(limit: int, planner: PagePlanner) -> Batch:
            at, id_ = after
            asked = {"until": until or now, "at": at, "id": id_, "limit": limit}
            with self._database.write("claiming what is due") as connection:
                looks = self._database.dialect.read(connection, self._due_at(now), asked)
                planner.note(looks)
                is_full = len(looks) == limit
                batch = self._carry_out(
                    connection, looks, is_full=is_full, now=now, node=node, planner=planner
                )
            if batch.more:
                last = looks[batch.looked - 1]
                self._taken_to[since is None] = (last.next_due_at, last.planned_id)
            return batch

        series = "missed" if since is None else "due"
        return self._due_pages.take(limit, planner, take, series=series, now=now)

    def plan_edited(
        self, *, now: datetime, since: datetime | None, limit: int, node: str, planner: Planner
    ) -> Batch:
        """See `ClaimStorePort.plan_edited`."""
        floor = pages.BEFORE_ALL if since is None else (since, LARGEST_ID)

        @repeatable
        def take(limit: int, planner: PagePlanner) -> Batch:
            edited = excluding(pages.EDITED, schedulers.c.id, self._edit_pages.passed_over(now))
            locked = len(self._edit_pages.locked(now))
            with self._database.read("looking for edited schedules") as connection:
                if not self._edited(connection, edited, floor, 1):
                    return Batch(busy=locked)
            with self._database.write("planning edited schedules") as connection:
                page = self._free_plans.take(
                    connection,
                    self._edited(connection, edited, floor, limit),
                    limit=limit,
                    behind=lambda last: self._page(
                        connection, edited, (last.updated_at, last.id), limit
                    ),
                )
                looks, is_full = page.looks, page.is_full
                planner.note(looks)
                batch = self._carry_out(
                    connection, looks, is_full=is_full, now=now, node=node, planner=planner
                )
            self._resume_at = pages.BEFORE_ALL
            if batch.more:
                last = looks[batch.looked - 1]
                self._resume_at = (last.updated_at, last.id)
            return attrs.evolve(batch, busy=page.busy + locked)

        return self._edit_pages.take(limit, planner, take, series="edited", now=now)

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
        """See `ClaimStorePort.plan_problems`. Most looks find nothing, and take no lock."""
        dialect = self._database.dialect
        all_problems = pages.PROBLEMS if since is None else pages.PROBLEMS_OF_LATE
        bounds = {"after": after} if since is None else {"after": after, "since": since}

        @repeatable
        def take(limit: int, planner: PagePlanner) -> tuple[Batch, int]:
            passed_over = self._edit_pages.passed_over(now)
            problems = excluding(all_problems, plans.c.scheduler_id, passed_over)
            with self._database.read("looking for what could not be planned") as connection:
                if not dialect.read(connection, problems, {**bounds, "limit": 1}):
                    return Batch(), after
            with self._database.write("planning what could not be planned") as connection:

                def behind(last: int) -> Sequence[Row[Any]]:
                    asked = {**bounds, "after": last, "limit": limit}
                    return dialect.read(connection, problems, asked)

                page = self._free_plans.take(
                    connection, behind(after), limit=limit, behind=lambda last: behind(last.id)
                )
                looks, is_full = page.looks, page.is_full
                planner.note(looks)
                batch = self._carry_out(
                    connection, looks, is_full=is_full, now=now, node=node, planner=planner
                )
            return batch, looks[batch.looked - 1].id if batch.looked else after

        return self._edit_pages.take(limit, planner, take, series="problems", now=now)

    @repeatable
    def next_due(self, *, after: datetime | None = None) -> datetime | None:
        """See `ClaimStorePort.next_due`."""
        statement = pages.NEXT_DUE if after is None else pages.NEXT_DUE_AFTER
        with self._database.read("looking for the next due instant") as connection:
            found: object = connection.scalar(statement, {} if after is None else {"after": after})
        return None if found is None else moment_or_long_ago(found)

    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `ClaimStorePort.mark_published`."""
        self._marks.published(executions, now=now)

    def hand_over(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `ClaimStorePort.hand_over`."""
        self._marks.hand_over(executions, now=now)

    def doubt(self, *, since: datetime, now: datetime, after: int, limit: int) -> int | None:
        """See `ClaimStorePort.doubt`."""
        return self._found.doubt(since=since, now=now, after=after, limit=limit)

    def overdue(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.overdue`."""
        return self._found.overdue(now=now, graces=graces, limit=limit)

    def unfinished(self, *, after: int, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.unfinished`."""
        return self._found.unfinished(after=after, limit=limit)

    def owners(self) -> Collection[str]:
        """See `ClaimStorePort.owners`."""
        return self._found.owners()

    def regain(self, *, now: datetime, limit: int) -> int:
        """See `ClaimStorePort.regain`."""
        return self._found.regain(now=now, limit=limit)

    def lapsed(self, *, now: datetime, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.lapsed`."""
        return self._found.lapsed(now=now, limit=limit)

    def run_by(self, nodes: Collection[str], *, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.run_by`."""
        return self._found.run_by(nodes, limit=limit)

    def mark_ends_published(self, ends: Collection[AttemptRef]) -> None:
        """See `ClaimStorePort.mark_ends_published`."""
        self._ends.mark_published(ends)

    def overdue_ends(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Ended]:
        """See `ClaimStorePort.overdue_ends`."""
        return self._ends.overdue(now=now, until=now - graces.ended, limit=limit)

    def _carry_out(
        self,
        connection: Connection,
        looks: Sequence[Row[Any]],
        *,
        is_full: bool,
        now: datetime,
        node: str,
        planner: Planner,
    ) -> Batch:
        batch = apply_plans(
            connection,
            self._database.dialect,
            looks,
            now=now,
            node=node,
            planner=planner,
            judge=self._judge,
        )
        return attrs.evolve(batch, more=is_full or batch.looked < len(looks))

    def _due_at(self, now: datetime) -> Select[Any]:
        passed_over = self._due_pages.passed_over(now)
        if not passed_over:
            return self._due
        due = excluding(pages.DUE, plans.c.scheduler_id, passed_over)
        return pages.schedules_of(due.with_for_update(skip_locked=True))

    def _edited(
        self, connection: Connection, edited: Select[Any], floor: pages.Place, limit: int
    ) -> Sequence[Row[Any]]:
        """Find edited schedules, going on where the last full page ended.

        Without that, planning 100,000 new schedules page by page would compare those that are
        planned again for every page. Nothing depends on it: a short page is looked for anew.
        """
        resume_at = self._resume_at
        if resume_at is not pages.BEFORE_ALL:
            page = self._page(connection, edited, resume_at, limit)
            if len(page) == limit and pages.is_later(resume_at, floor):
                return page
        return self._page(connection, edited, floor, limit)

    def _page(
        self, connection: Connection, edited: Select[Any], after: pages.Place, limit: int
    ) -> Sequence[Row[Any]]:
        at, id_ = after
        asked = {"at": at, "id": id_, "limit": limit}
        return self._database.dialect.read(connection, edited, asked)
