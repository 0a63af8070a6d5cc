"""What the reconciler looks for: executions that are overdue, lapsed, doubted or stray."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Select, Update

from cronhare.domain.execution import STARTABLE, UNFINISHED, Execution
from cronhare.domain.lifecycle.redelivery import Graces, expected_after_doubt
from cronhare.domain.retries.leaps import CLOCKS_DIFFER
from cronhare.domain.texts.durations import LONGEST

from ..cooldown import excluding
from ..isolation.batches import take_isolated, write_isolated
from ..isolation.bisection import BatchResult, OnLocked
from ..isolation.past_locked import take_past_locked
from ..isolation.quarantine import (
    as_quarantined,
    pass_over,
    quarantine_broken,
    quarantine_still_broken,
)
from ..isolation.refusals import bisect_batch
from ..isolation.suspects import Kind, Suspects
from ..ledger_time import LedgerTime
from ..mapping.execution_rows import executions_of
from ..schema.tables import executions
from ..transactions.database import Database, repeatable
from ..transactions.lock_waits import LockWaitBudget
from . import statements
from .leap_waits import DOUBTFUL_WAITS, find_waits, regain_waits
from .statements import lock_rows


class ReconcilerQueries(LedgerTime):
    """The part of `ClaimStorePort` that the reconciler asks. Broken executions are quarantined."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._waiting, self._stray, self._broken = Suspects(), Suspects(), Suspects()
        self._queries_budget = LockWaitBudget()

    @repeatable
    def doubt(self, *, since: datetime, now: datetime, after: int, limit: int) -> int | None:
        """See `ClaimStorePort.doubt`. Locked executions are being dealt with, and passed over."""
        with self._database.read("looking at what the broker has") as connection:
            page = connection.scalars(statements.DOUBTABLE, {"after": after, "limit": limit}).all()

        @repeatable
        def doubt_them(part: Sequence[int]) -> BatchResult[None]:
            with self._database.write("doubting what the broker has") as connection:
                asked = {**statements.doubts(since, now), "ids": part}
                ids = list(connection.scalars(statements.DOUBTED, asked))
                if ids:
                    check = expected_after_doubt(None, now)
                    connection.execute(statements.DOUBT, {"ids": ids, "check": check})
                early = connection.execute(statements.DOUBTED_EARLY, {**asked, "ids": part})
                if checks := statements.postponed_by_doubt(early, now):
                    self._database.dialect.update_many(connection, statements.POSTPONE, checks)
            return BatchResult((), [*ids, *(one["found_id"] for one in checks)])

        if page:  # what is refused or locked is decided by another look, once it is overdue
            later = OnLocked[int, None](lambda _id: None, self._queries_budget)
            bisect_batch(page, doubt_them, alone=lambda _id, _refusal: None, on_locked=later)
        return page[-1] if len(page) == limit else None

    def overdue(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.overdue`. Most looks find nothing, and take no lock."""
        until = {state.value: now - graces.of(state) for state in STARTABLE}
        refused = self._database.passed_over.at(now)
        statement = excluding(statements.LONGEST_OVERDUE, executions.c.id, refused)

        @repeatable
        def choose(most: int, left: int) -> Sequence[int]:
            asked = {**until, "limit": most, "left": left}
            with self._database.read("looking for what is overdue") as connection:
                return connection.scalars(statement, asked).all()

        @repeatable
        def take(ids: Sequence[int], kinds: dict[int, Kind]) -> BatchResult[Execution]:
            with self._database.write("taking what is overdue") as connection:
                rows = connection.execute(statements.OVERDUE, {**until, "ids": ids})
                found = executions_of(connection, rows)
                kinds.update((one.id, (one.state, one.problem is None)) for one in found)
                apart = quarantine_broken(connection, found, now)
                sound = [one for one in found if one.problem is None]
                checks = [statements.postponement(one, now, graces) for one in sound]
                self._database.dialect.update_many(connection, statements.POSTPONE, checks)
            left = pass_over(self._database, found, apart, now)
            taken = [one for one in as_quarantined(found, apart) if one.id not in left]
            return BatchResult(taken, [one.id for one in taken])

        take_unlocked = partial(
            take_isolated,
            self._database,
            take=take,
            now=now,
            suspects=self._waiting,
            budget=self._queries_budget,
            states=STARTABLE,
        )
        return take_past_locked(choose, take_unlocked, limit=limit)

    @repeatable
    def unfinished(self, *, after: int, limit: int) -> Sequence[Execution]:
        with self._database.read("listing what is unfinished") as connection:
            rows = connection.execute(statements.UNFINISHED, {"after": after, "limit": limit})
            found = executions_of(connection, rows)
        return self._quarantine_broken(found, self.now())

    @repeatable
    def owners(self) -> Collection[str]:
        with self._database.read("listing the nodes at work") as connection:
            found = frozenset(connection.scalars(statements.OWNERS))
        return frozenset(owner for owner in found if isinstance(owner, str))

    @repeatable
    def regain(self, *, now: datetime, limit: int) -> int:
        """See `ClaimStorePort.regain`. Most looks find nothing, and take no lock."""
        return sum(
            self._regain(strays, give_time, {"now": now, "horizon": now + LONGEST}, limit)
            for strays, give_time in statements.REGAIN
        ) + self._regain_waits(now, limit)

    def _regain(
        self, strays: Select[Any], give_time: Update, asked: Mapping[str, Any], limit: int
    ) -> int:
        @repeatable
        def take(part: Sequence[int], kinds: dict[int, Kind]) -> BatchResult[int]:
            with self._database.write("finding what nobody would find") as connection:
                free = lock_rows(connection, statements.UNLOCKED, part)
                if not free:
                    return BatchResult(())
                kinds.update((id_, row.state) for id_, row in free.items())
                rows = connection.execute(give_time, {**asked, "ids": list(free)}).rowcount
            # Which of them were strays still is not known, unless all of them were.
            return BatchResult(part[:rows], free.keys() if rows == len(free) else ())

        statement = self._not_passed_over(strays, asked["now"])
        with self._database.read("looking for what nobody would find") as connection:
            ids = connection.scalars(statement, {**asked, "limit": limit}).all()
        return self._take_strays(ids, take, asked["now"])

    def _regain_waits(self, now: datetime, limit: int) -> int:
        soon = now + CLOCKS_DIFFER

        @repeatable
        def take(part: Sequence[int], kinds: dict[int, Kind]) -> BatchResult[int]:
            with self._database.write("ending what a clock lets wait") as connection:
                free = lock_rows(connection, statements.UNLOCKED, part)
                kinds.update((id_, row.state) for id_, row in free.items())
                taken = regain_waits(connection, self._database.dialect, free, soon=soon, now=now)
            return BatchResult(taken, taken)

        doubtful = self._not_passed_over(DOUBTFUL_WAITS, now)
        with self._database.read("looking for what a clock lets wait") as connection:
            ids = find_waits(connection, doubtful, soon=soon, now=now, limit=limit)
        return self._take_strays(ids, take, now)

    def _not_passed_over(self, strays: Select[Any], now: datetime) -> Select[Any]:
        return excluding(strays, executions.c.id, self._database.passed_over.at(now))

    def _take_strays(
        self,
        ids: Sequence[int],
        take: Callable[[Sequence[int], dict[int, Kind]], BatchResult[int]],
        now: datetime,
    ) -> int:
        if not ids:
            return 0
        taken = take_isolated(
            self._database,
            ids,
            take,
            now=now,
            suspects=self._stray,
            budget=self._queries_budget,
            states=UNFINISHED,
        )
        return len(taken)

    @repeatable
    def lapsed(self, *, now: datetime, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.lapsed`. Most looks find nothing, and ask for no more than that."""
        with self._database.read("looking for lapsed leases") as connection:
            if connection.execute(statements.ONE_LAPSED, {"now": now}).first() is None:
                return ()
            refused = self._database.passed_over.at(now)
            statement = excluding(statements.LAPSED, executions.c.id, refused)
            asked = {"now": now, "limit": limit}
            found = executions_of(connection, connection.execute(statement, asked))
        return self._quarantine_broken(found, now)

    @repeatable
    def run_by(self, nodes: Collection[str], *, limit: int) -> Sequence[Execution]:
        now = self.now()
        refused = self._database.passed_over.at(now)
        statement = excluding(statements.RUN_BY, executions.c.id, refused)
        with self._database.read("listing what nodes run") as connection:
            asked = {"nodes": list(nodes), "limit": limit}
            found = executions_of(connection, connection.execute(statement, asked))
        return self._quarantine_broken(found, now)

    def _quarantine_broken(self, found: Sequence[Execution], now: datetime) -> Sequence[Execution]:
        """Quarantine the broken ones, or pass them over: they would fill each page from now on."""
        broken = [execution for execution in found if execution.problem is not None]
        if not broken:
            return found

        @repeatable
        def quarantine(part: Sequence[Execution]) -> Collection[int]:
            with self._database.write("setting broken executions apart") as connection:
                return quarantine_still_broken(connection, part, now)

        apart = write_isolated(
            self._database,
            broken,
            quarantine,
            now=now,
            suspects=self._broken,
            budget=self._queries_budget,
        )
        pass_over(self._database, broken, apart, now)
        return as_quarantined(found, apart)
