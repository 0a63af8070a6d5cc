"""Claims in SQL."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

import attrs
from sqlalchemy import Connection, Engine, Row

from cronhare.domain.durations import LONGEST
from cronhare.domain.execution import Execution, State
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.patience import FIRST_WAIT
from cronhare.ports.claims import Batch, Graces, Planner
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerRefused

from . import pages, waiting
from .carrying_out import carry_out
from .database import Database, repeatable
from .drafts import moment_or_long_ago
from .refusals import by_halves, in_smaller_pages
from .rows import executions_of
from .setting_apart import set_apart, set_apart_now, set_apart_refused


class SqlClaimStore:
    """Satisfies `ClaimStorePort`. What has a method here is one transaction."""

    def __init__(self, engine: Engine, clock: ClockPort, *, judge: str = "") -> None:
        """See `Database`. *judge* stands beside what this replica cannot plan: which one it is."""
        self._judge = judge
        self._database = Database(engine, clock)
        self._due = pages.schedules_of(self._database.vendor.held(pages.DUE, pass_over=True))
        self._overdue = self._database.vendor.held(waiting.OVERDUE, pass_over=True)
        self._doubted = self._database.vendor.held(waiting.DOUBTED, pass_over=True)
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
        def take(limit: int, planner: Planner) -> Batch:
            at, id_ = after
            asked = {"now": now, "at": at, "id": id_, "limit": limit}
            with self._database.write("claiming what is due") as connection:
                looks = self._database.vendor.read(connection, self._due, asked)
                batch = self._carry_out(
                    connection, looks, limit=limit, now=now, node=node, planner=planner
                )
            if batch.more:
                last = looks[batch.looked - 1]
                self._taken_to[since is None] = (last.next_due_at, last.planned_id)
            return batch

        return in_smaller_pages(limit, planner, take)

    def plan_edited(
        self, *, now: datetime, since: datetime | None, limit: int, node: str, planner: Planner
    ) -> Batch:
        """See `ClaimStorePort.plan_edited`."""
        floor = pages.BEFORE_ALL if since is None else (since, LARGEST_ID)

        @repeatable
        def take(limit: int, planner: Planner) -> Batch:
            with self._database.read("looking for edited schedules") as connection:
                if not self._edited(connection, floor, 1):
                    return Batch()
            with self._database.write("planning edited schedules") as connection:
                looks = self._edited(connection, floor, limit)
                batch = self._carry_out(
                    connection, looks, limit=limit, now=now, node=node, planner=planner
                )
            self._resume_at = pages.BEFORE_ALL
            if batch.more:
                last = looks[batch.looked - 1]
                self._resume_at = (last.updated_at, last.id)
            return batch

        return in_smaller_pages(limit, planner, take)

    def plan_problems(
        self, *, now: datetime, after: int, limit: int, node: str, planner: Planner
    ) -> tuple[Batch, int]:
        """See `ClaimStorePort.plan_problems`. Most looks find nothing, and take no lock."""
        vendor = self._database.vendor

        @repeatable
        def take(limit: int, planner: Planner) -> tuple[Batch, int]:
            asked = {"after": after, "limit": limit}
            with self._database.read("looking for what could not be planned") as connection:
                if not vendor.read(connection, pages.PROBLEMS, {**asked, "limit": 1}):
                    return Batch(), after
            with self._database.write("planning what could not be planned") as connection:
                looks = vendor.read(connection, pages.PROBLEMS, asked)
                batch = self._carry_out(
                    connection, looks, limit=limit, now=now, node=node, planner=planner
                )
            return batch, looks[batch.looked - 1].id if batch.looked else after

        return in_smaller_pages(limit, planner, take)

    @repeatable
    def next_due(self, *, after: datetime | None = None) -> datetime | None:
        """See `ClaimStorePort.next_due`."""
        statement = pages.NEXT_DUE if after is None else pages.NEXT_DUE_AFTER
        with self._database.read("looking for the next due instant") as connection:
            found: object = connection.scalar(statement, {} if after is None else {"after": after})
        return None if found is None else moment_or_long_ago(found)

    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `ClaimStorePort.mark_published`."""
        self._each(executions, partial(self._mark_published, now=now), now)

    def _each(
        self,
        found: Sequence[Execution],
        do: Callable[[Sequence[Execution]], object],
        now: datetime,
    ) -> None:
        """Do something with all of *found*, and set apart that of which it is refused."""

        def ask(part: Sequence[Execution]) -> Sequence[None]:
            do(part)
            return ()

        def alone(execution: Execution, refusal: LedgerRefused) -> None:
            set_apart_refused(self._database, execution.id, str(refusal), now)

        by_halves(found, ask, alone=alone)

    @repeatable
    def _mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        claimed = sorted(waiting.claimed_marks(executions, now), key=itemgetter("told_id"))
        resent = sorted(waiting.resent_marks(executions, now), key=itemgetter("told_id"))
        vendor = self._database.vendor
        with self._database.write("marking what was published") as connection:
            vendor.update_many(connection, waiting.MARK_CLAIMED, claimed)
            vendor.update_many(connection, waiting.MARK_RESENT, resent)

    def hand_over(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `ClaimStorePort.hand_over`."""
        self._each(executions, partial(self._hand_over, now=now), now)

    @repeatable
    def _hand_over(self, executions: Sequence[Execution], *, now: datetime) -> None:
        told = [
            {"told_id": one.id, "told_attempt": one.attempt, "now": now}
            for one in sorted(executions, key=attrgetter("id"))
        ]
        with self._database.write("handing executions over") as connection:
            self._database.vendor.update_many(connection, waiting.HAND_OVER, told)

    @repeatable
    def doubt(self, *, since: datetime, now: datetime, after: int, limit: int) -> int | None:
        """See `ClaimStorePort.doubt`. What somebody holds is being seen to, and passed over."""
        with self._database.read("looking at what the broker has") as connection:
            page = connection.scalars(waiting.DOUBTABLE, {"after": after, "limit": limit}).all()
        if page:
            asked = {**waiting.doubts(since, now), "ids": page}
            with self._database.write("doubting what the broker has") as connection:
                ids = list(connection.scalars(self._doubted, asked))
                if ids:
                    connection.execute(waiting.DOUBT, {"ids": ids, "check": now - FIRST_WAIT})
        return page[-1] if len(page) == limit else None

    @repeatable
    def overdue(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.overdue`. Most looks find nothing, and take no lock."""
        until = {
            State.CLAIMED.value: now - graces.claimed,
            State.RETRYING.value: now - graces.retrying,
            State.PUBLISHED.value: now - graces.published,
        }
        with self._database.read("looking for what is overdue") as connection:
            if connection.execute(waiting.LONGEST_OVERDUE, {**until, "limit": 1}).first() is None:
                return ()
        seen: list[int] = []
        while True:
            try:
                return self._take_overdue({**until, "limit": limit}, now, graces, seen)
            except LedgerRefused as refusal:
                if limit == 1:
                    if not seen:
                        raise
                    set_apart_refused(self._database, seen[-1], str(refusal), now)
                    return ()
                limit = max(limit // 2, 1)

    def _take_overdue(
        self, asked: Mapping[str, object], now: datetime, graces: Graces, seen: list[int]
    ) -> Sequence[Execution]:
        """Take a page of what is overdue; *seen* is told of it, should it be refused."""
        with self._database.write("taking what is overdue") as connection:
            found = executions_of(connection, connection.execute(self._overdue, asked))
            seen[:] = [one.id for one in found]
            set_apart(connection, found, now)
            sound = (one for one in found if one.problem is None)
            checks = [waiting.postponement(one, now, graces) for one in sound]
            self._database.vendor.update_many(connection, waiting.POSTPONE, checks)
            return found

    @repeatable
    def unfinished(self, *, after: int, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.unfinished`."""
        with self._database.read("listing what is unfinished") as connection:
            rows = connection.execute(waiting.UNFINISHED, {"after": after, "limit": limit})
            found = executions_of(connection, rows)
        return self._set_apart(found, self.now())

    @repeatable
    def owners(self) -> Collection[str]:
        """See `ClaimStorePort.owners`."""
        with self._database.read("listing the nodes at work") as connection:
            found = frozenset(connection.scalars(waiting.OWNERS))
        return frozenset(owner for owner in found if isinstance(owner, str))

    @repeatable
    def regain(self, *, now: datetime) -> int:
        """See `ClaimStorePort.regain`. Most looks find nothing, and take no lock."""
        asked = {"now": now, "horizon": now + LONGEST}
        with self._database.read("looking for what nobody would find") as connection:
            if connection.execute(waiting.ONE_STRAY, asked).first() is None:
                return 0
        with self._database.write("finding what nobody would find") as connection:
            return sum(
                connection.execute(statement, asked).rowcount for statement in waiting.REGAIN
            )

    @repeatable
    def lapsed(
        self, *, now: datetime, limit: int, gone: Collection[str] = ()
    ) -> Sequence[Execution]:
        """See `ClaimStorePort.lapsed`. Most looks find nothing, and ask for no more than that."""
        with self._database.read("looking for lapsed leases") as connection:
            if not gone and connection.execute(waiting.ONE_LAPSED, {"now": now}).first() is None:
                return ()
            asked = {"now": now, "limit": limit, "gone": list(gone)}
            found = executions_of(connection, connection.execute(waiting.LAPSED, asked))
        return self._set_apart(found, now)

    def _set_apart(self, found: Sequence[Execution], now: datetime) -> Sequence[Execution]:
        """Set apart what is broken of *found*, which is given as it was."""
        broken = [execution for execution in found if execution.problem is not None]
        if broken:
            self._each(broken, partial(self._set_apart_now, now=now), now)
        return found

    @repeatable
    def _set_apart_now(self, broken: Sequence[Execution], *, now: datetime) -> None:
        with self._database.write("setting broken executions apart") as connection:
            set_apart_now(connection, self._database.vendor, broken, now)

    def _carry_out(
        self,
        connection: Connection,
        looks: Sequence[Row[Any]],
        *,
        limit: int,
        now: datetime,
        node: str,
        planner: Planner,
    ) -> Batch:
        batch = carry_out(
            connection,
            self._database.vendor,
            looks,
            now=now,
            node=node,
            planner=planner,
            judge=self._judge,
        )
        return attrs.evolve(batch, more=len(looks) == limit or batch.looked < len(looks))

    def _edited(self, connection: Connection, floor: pages.Place, limit: int) -> Sequence[Row[Any]]:
        """Find edited schedules, going on where the last full page ended.

        Without that, planning 100,000 new schedules page by page would compare those that are
        planned again for every page. Nothing depends on it: a short page is looked for anew.
        """
        resume_at = self._resume_at
        if resume_at is not pages.BEFORE_ALL:
            page = self._page(connection, resume_at, limit)
            if len(page) == limit and pages.is_later(resume_at, floor):
                return page
        return self._page(connection, floor, limit)

    def _page(self, connection: Connection, after: pages.Place, limit: int) -> Sequence[Row[Any]]:
        at, id_ = after
        asked = {"at": at, "id": id_, "limit": limit}
        return self._database.vendor.read(connection, pages.EDITED, asked)
