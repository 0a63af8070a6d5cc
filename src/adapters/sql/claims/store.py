"""Claims in SQL: what is due, edited or could not be planned, page by page."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import attrs
from sqlalchemy import Connection, Engine, Row, Select

from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.domain.schedules.planning import Planner
from cronhare.ports.claims import Batch
from cronhare.ports.clock import ClockPort

from ..cooldown import Cooldown, excluding
from ..gates.letting_go import LettingGo
from ..mapping.schedule_rows import moment_or_long_ago
from ..schema.tables import plans, schedulers
from ..transactions.database import Database, repeatable
from . import pages
from .apply_plans import apply_plans
from .asked_ends import AskedEnds
from .page_bisection import PageBisection
from .page_planner import PagePlanner
from .plan_locks import Page, PlanLocks
from .published_marks import PublishedMarks
from .reconciliation import ReconcilerQueries
from .unconfirmed_ends import UnconfirmedEnds

_DUE: Final = pages.schedules_of(pages.DUE.with_for_update(skip_locked=True))


class SqlClaimStore(ReconcilerQueries, AskedEnds, PublishedMarks, UnconfirmedEnds, LettingGo):
    """Satisfies `ClaimStorePort`; the methods about plans are here, the others are inherited.

    What is repeatable is one transaction, after a look for it. Of what the database refuses, each
    part that is tried again is one (ADR 15).
    """

    def __init__(self, engine: Engine, clock: ClockPort, *, judge: str = "") -> None:
        """See `Database`. *judge* names this replica beside what it cannot plan."""
        super().__init__(Database(engine, clock))
        self._judge = judge
        left_out = Cooldown()  # schedules; of executions all stores know
        problems = Cooldown()
        self._due_pages = PageBisection(left_out, problems)
        self._edit_pages = PageBisection(left_out, problems)
        self._plan_locks = PlanLocks(self._database)
        self._resume_at = pages.BEFORE_ALL
        self._taken_to: dict[bool, pages.Place] = {}

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
        floor = pages.BEFORE_ALL if since is None else (since, LARGEST_ID)
        taken_to = self._taken_to.pop(since is None, floor)
        after = taken_to if pages.is_later(taken_to, floor) else floor

        @repeatable
        def take(limit: int, planner: PagePlanner) -> Batch:
            at, id_ = after
            asked = {"until": until or now, "at": at, "id": id_, "limit": limit}
            with self._database.write("claiming what is due") as connection:
                rows = self._database.dialect.read(connection, self._due_at(now), asked)
                page = Page(rows=rows, is_full=len(rows) == limit)
                batch = self._apply(connection, page, planner, now=now, node=node)
            if batch.more:
                last = rows[batch.looked - 1]
                self._taken_to[since is None] = (last.next_due_at, last.planned_id)
            return batch

        series = "missed" if since is None else "due"
        return self._due_pages.take(limit, planner, take, series=series, now=now)

    def plan_edited(
        self, *, now: datetime, since: datetime | None, limit: int, node: str, planner: Planner
    ) -> Batch:
        floor = pages.BEFORE_ALL if since is None else (since, LARGEST_ID)

        @repeatable
        def take(limit: int, planner: PagePlanner) -> Batch:
            edited = excluding(pages.EDITED, schedulers.c.id, self._edit_pages.passed_over(now))
            locked = len(self._edit_pages.locked(now))
            with self._database.read("looking for edited schedules") as connection:
                if not self._edited(connection, edited, floor, 1):
                    return Batch(busy=locked)
            with self._database.write("planning edited schedules") as connection:
                page = self._plan_locks.take(
                    connection,
                    self._edited(connection, edited, floor, limit),
                    limit=limit,
                    behind=lambda last: self._page(
                        connection, edited, (last.updated_at, last.id), limit
                    ),
                )
                batch = self._apply(connection, page, planner, now=now, node=node)
            self._resume_at = pages.BEFORE_ALL
            if batch.more:
                last = page.rows[batch.looked - 1]
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

                page = self._plan_locks.take(
                    connection, behind(after), limit=limit, behind=lambda last: behind(last.id)
                )
                batch = self._apply(connection, page, planner, now=now, node=node)
            return batch, page.rows[batch.looked - 1].id if batch.looked else after

        return self._edit_pages.take(limit, planner, take, series="problems", now=now)

    @repeatable
    def next_due(self, *, after: datetime | None = None) -> datetime | None:
        statement = pages.NEXT_DUE if after is None else pages.NEXT_DUE_AFTER
        with self._database.read("looking for the next due instant") as connection:
            found: object = connection.scalar(statement, {} if after is None else {"after": after})
        return None if found is None else moment_or_long_ago(found)

    def _apply(
        self, connection: Connection, page: Page, planner: PagePlanner, *, now: datetime, node: str
    ) -> Batch:
        planner.note(page.rows)
        batch = apply_plans(
            connection,
            self._database.dialect,
            page.rows,
            now=now,
            node=node,
            planner=planner,
            judge=self._judge,
            recent=self._recent_claims,
        )
        return attrs.evolve(batch, more=page.is_full or batch.looked < len(page.rows))

    def _due_at(self, now: datetime) -> Select[Any]:
        passed_over = self._due_pages.passed_over(now)
        if not passed_over:
            return _DUE
        due = excluding(pages.DUE, plans.c.scheduler_id, passed_over)
        return pages.schedules_of(due.with_for_update(skip_locked=True))

    def _edited(
        self, connection: Connection, edited: Select[Any], floor: pages.Place, limit: int
    ) -> Sequence[Row[Any]]:
        """Find edited schedules, going on where the last full page ended.

        Otherwise planning 100,000 new schedules would compare those that are planned again for
        every page. Nothing depends on it: a short page is looked for anew.
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
