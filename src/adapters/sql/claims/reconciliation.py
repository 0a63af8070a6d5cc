"""What was claimed and not published, not started, or left behind by a worker."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
import sqlalchemy as sa

from cronhare.domain.execution import (
    STARTABLE,
    Execution,
    Graces,
    State,
    expected_after_doubt,
    expected_anew_at,
)

from ..database import Database, LedgerTime, repeatable, repeatable_unless_locked
from ..dialect import Cooldown, excluding
from ..tables.executions import EXECUTION, executions_of, in_states, is_in
from ..tables.tables import by_id, executions
from ..tables.types import moment_of, named_rows
from ..writing import Written, set_apart, write_each, write_executions

_RUN: Final = executions.c

A = TypeVar("A")

#: Executions that are about to be marked, locked first: an UPDATE would wait for locked ones.
UNLOCKED: Final[sa.Select[Any]] = by_id(
    sa.select(_RUN.id, _RUN.state, _RUN.attempt, _RUN.published_at)
).with_for_update(skip_locked=True)
_IS_SENT = in_states((State.PUBLISHED, State.RETRYING))
#: What has its message in a queue, or should have: looked at in pages.
DOUBTABLE = (
    sa.select(_RUN.id)
    .where(_IS_SENT, _RUN.id > sa.bindparam("after"))
    .order_by(_RUN.id)
    .limit(sa.bindparam("limit"))
)


DOUBTED: Final[sa.Select[Any]] = (
    by_id(
        sa.select(_RUN.id, *_RUN["state", "check_at", "next_attempt_at", "published_at", "resends"])
    )
    .where(_IS_SENT)
    .with_for_update(skip_locked=True)
)
POSTPONE = (
    sa.update(executions)
    .where(_RUN.id == sa.bindparam("found_id"))
    .values(check_at=moment_of("check"))
)
_IS_LATE = {state: _RUN.check_at <= moment_of(state.value) for state in sorted(STARTABLE)}
LONGEST_OVERDUE = (
    sa.select(_RUN.id)
    .where(sa.or_(*(sa.and_(_RUN.state == state.value, late) for state, late in _IS_LATE.items())))
    .order_by(_RUN.check_at, _RUN.id)
    .limit(sa.bindparam("limit"))
)
# Chosen first and taken then, or a database that sorts would lock all that it sorted.
OVERDUE = (
    by_id(EXECUTION)
    .where(sa.or_(*(sa.and_(is_in(state), late) for state, late in _IS_LATE.items())))
    .order_by(_RUN.check_at, _RUN.id)
    .with_for_update(skip_locked=True)
)
OF_UNFINISHED = (
    EXECUTION.where(in_states(STARTABLE), _RUN.id > sa.bindparam("after"))
    .order_by(_RUN.id)
    .limit(sa.bindparam("limit"))
)
# What runs has a lease; saying so lets SQLite use its index of the few rows that have one.
_RUNNING = sa.and_(_RUN.state == State.RUNNING.value, _RUN.lease_until.is_not(None))
OWNERS = sa.select(_RUN.owner).where(_RUNNING, _RUN.owner.is_not(None)).distinct()
_HAS_LAPSED = _RUN.lease_until <= moment_of("now")
ONE_LAPSED = sa.select(_RUN.id).where(_RUNNING, _HAS_LAPSED).limit(1)
LAPSED = EXECUTION.where(_RUNNING, _HAS_LAPSED).order_by(_RUN.id).limit(sa.bindparam("limit"))
RUN_BY = (
    EXECUTION.where(_RUNNING, _RUN.owner.in_(sa.bindparam("nodes", expanding=True)))
    .order_by(_RUN.id)
    .limit(sa.bindparam("limit"))
)


def lock_rows(connection: sa.Connection, ids: Sequence[int]) -> Mapping[int, sa.Row[Any]]:
    return {row.id: row for row in named_rows(connection, UNLOCKED, {"ids": ids})}


def write_ids(
    database: Database,
    ids: Sequence[int],
    write: Callable[[Sequence[int]], Written[A]],
    now: datetime,
    *,
    states: Collection[State],
    resting: Cooldown | None = None,
) -> list[A]:
    """Write executions that are in these *states*; what is locked is noted as *resting*."""

    def locked(id_: int) -> Sequence[A]:
        if resting is not None:
            resting.note(id_, now)
        return ()

    def still(_: int, seen: Execution) -> bool:
        return seen.state in states

    return write_executions(database, ids, write, now, id_of=int, still=still, locked=locked)


class ReconcilerQueries(LedgerTime):
    """The part of `ClaimStorePort` that the reconciler asks. Broken executions are quarantined."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._resting = Cooldown()  # what is overdue and locked

    @repeatable
    def doubt(self, *, since: datetime, now: datetime, after: int, limit: int) -> int | None:
        """See `ClaimStorePort.doubt`. Locked executions are being dealt with, and passed over."""
        with self._database.read("looking at what the broker has") as connection:
            page = connection.scalars(DOUBTABLE, {"after": after, "limit": limit}).all()

        @repeatable_unless_locked
        def doubt_them(part: Sequence[int]) -> Written[None]:
            with self._database.write("doubting what the broker has") as connection:
                checks = [
                    {"found_id": row.id, "check": check}
                    for row in connection.execute(DOUBTED, {"ids": part})
                    if (check := expected_after_doubt(row, now, since=since)) is not None
                ]
                if checks:
                    self._database.dialect.update_many(connection, POSTPONE, checks)
            return Written((), changed=bool(checks))

        # What is refused or locked is decided by another look, once it is overdue.
        write_each(page, doubt_them, refused=lambda *_: (), locked=lambda _: ())
        return page[-1] if len(page) == limit else None

    def overdue(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.overdue`. Most looks find nothing, and take no lock."""
        until = {state.value: now - graces.of(state) for state in STARTABLE}

        @repeatable_unless_locked
        def take(part: Sequence[int]) -> Written[Execution]:
            with self._database.write("taking what is overdue") as connection:
                rows = connection.execute(OVERDUE, {**until, "ids": part})
                found = executions_of(connection, rows)
                sound = [one for one in found if one.problem is None]
                grace = graces.published
                checks = [
                    {"found_id": one.id, "check": expected_anew_at(one, now, grace=grace)}
                    for one in sound
                ]
                self._database.dialect.update_many(connection, POSTPONE, checks)
            for id_ in set(part).difference(one.id for one in found):
                self._resting.note(id_, now)
            return Written(found, changed=bool(sound))

        ids = self._choose_overdue(now, {**until, "limit": limit})
        found = write_ids(self._database, ids, take, now, states=STARTABLE, resting=self._resting)
        return self._quarantine_broken(found, now)

    @repeatable
    def _choose_overdue(self, now: datetime, asked: Mapping[str, Any]) -> Sequence[int]:
        passed_over = {*self._database.passed_over.at(now), *self._resting.at(now)}
        statement = excluding(LONGEST_OVERDUE, _RUN.id, passed_over)
        with self._database.read("looking for what is overdue") as connection:
            return connection.scalars(statement, asked).all()

    @repeatable
    def unfinished(self, *, after: int, limit: int) -> Sequence[Execution]:
        with self._database.read("listing what is unfinished") as connection:
            rows = connection.execute(OF_UNFINISHED, {"after": after, "limit": limit})
            found = executions_of(connection, rows)
        return self._quarantine_broken(found, self.now())

    @repeatable
    def owners(self) -> Collection[str]:
        with self._database.read("listing the nodes at work") as connection:
            return frozenset(connection.scalars(OWNERS))

    @repeatable
    def lapsed(self, *, now: datetime, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.lapsed`. Most looks find nothing, and ask for no more than that."""
        with self._database.read("looking for lapsed leases") as connection:
            if connection.execute(ONE_LAPSED, {"now": now}).first() is None:
                return ()
            refused = self._database.passed_over.at(now)
            statement = excluding(LAPSED, _RUN.id, refused)
            asked = {"now": now, "limit": limit}
            found = executions_of(connection, connection.execute(statement, asked))
        return self._quarantine_broken(found, now)

    @repeatable
    def run_by(self, nodes: Collection[str], *, limit: int) -> Sequence[Execution]:
        now = self.now()
        refused = self._database.passed_over.at(now)
        statement = excluding(RUN_BY, _RUN.id, refused)
        with self._database.read("listing what nodes run") as connection:
            asked = {"nodes": list(nodes), "limit": limit}
            found = executions_of(connection, connection.execute(statement, asked))
        return self._quarantine_broken(found, now)

    def _quarantine_broken(self, found: Sequence[Execution], now: datetime) -> Sequence[Execution]:
        """Quarantine the broken ones, or pass them over: they would fill each page from now on."""
        return [one if one.problem is None else self._apart(one, one.problem, now) for one in found]

    def _apart(self, broken: Execution, problem: str, now: datetime) -> Execution:
        row = f"its row, of {broken.schedule_name}, is broken"
        why = f"{row}: {problem}. Mend the row, then: cronhare failed replay"
        is_apart = set_apart(
            self._database,
            broken.id,
            why,
            now,
            still=lambda seen: seen.problem is not None,
            is_broken=True,
        )
        return msgspec.structs.replace(broken, state=State.QUARANTINED) if is_apart else broken
