"""What was claimed and not published, not started, or left behind by a worker."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from typing import Any

import msgspec
from sqlalchemy import Select

from cronhare.domain.execution import STARTABLE, UNFINISHED, Execution, State
from cronhare.domain.lifecycle.redelivery import FARTHEST, Graces, expected_after_doubt
from cronhare.domain.lifecycle.transitions import hand_over, is_as_sent, may_hand_over, publish
from cronhare.domain.texts.listing import listed
from cronhare.ports.errors import LedgerUnavailable

from ..cooldown import Cooldown, excluding
from ..database import Database, LedgerTime, StorePart, repeatable, repeatable_unless_locked
from ..dialect import StatementFailed
from ..isolation import Written, as_set_apart, pass_over, set_apart, set_broken_apart, write_each
from ..rows.changes import write_changes
from ..rows.executions import BY_IDS, executions_of
from ..schema.tables import executions
from . import plans as statements
from .plans import lock_rows


class ReconcilerQueries(LedgerTime):
    """The part of `ClaimStorePort` that the reconciler asks. Broken executions are quarantined."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._resting = Cooldown()  # what is overdue and locked

    @repeatable
    def doubt(self, *, since: datetime, now: datetime, after: int, limit: int) -> int | None:
        """See `ClaimStorePort.doubt`. Locked executions are being dealt with, and passed over."""
        with self._database.read("looking at what the broker has") as connection:
            page = connection.scalars(statements.DOUBTABLE, {"after": after, "limit": limit}).all()

        @repeatable_unless_locked
        def doubt_them(part: Sequence[int]) -> Written[None]:
            with self._database.write("doubting what the broker has") as connection:
                asked = {**statements.doubts(since, now), "ids": part}
                ids = list(connection.scalars(statements.DOUBTED, asked))
                if ids:
                    check = expected_after_doubt(None, now)
                    connection.execute(statements.DOUBT, {"ids": ids, "check": check})
                early = connection.execute(statements.DOUBTED_EARLY, {**asked, "ids": part})
                if checks := statements.postponed_by_doubt(early, now):
                    self._database.dialect.update_many(connection, statements.POSTPONE, checks)
            return Written((), changed=bool(ids or checks))

        # What is refused or locked is decided by another look, once it is overdue.
        def left(_: int, __: Exception) -> Sequence[None]:
            return ()

        write_each(page, doubt_them, refused=left, doubted=left, locked=lambda _: ())
        return page[-1] if len(page) == limit else None

    def overdue(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Execution]:
        """See `ClaimStorePort.overdue`. Most looks find nothing, and take no lock."""
        until = {state.value: now - graces.of(state) for state in STARTABLE}

        @repeatable_unless_locked
        def take(part: Sequence[int]) -> Written[Execution]:
            with self._database.write("taking what is overdue") as connection:
                rows = connection.execute(statements.OVERDUE, {**until, "ids": part})
                found = executions_of(connection, rows)
                apart = set_broken_apart(connection, found, now)
                sound = [one for one in found if one.problem is None]
                checks = [statements.postponement(one, now, graces) for one in sound]
                self._database.dialect.update_many(connection, statements.POSTPONE, checks)
            for id_ in set(part).difference(one.id for one in found):
                rest(id_)
            taken = as_set_apart(self._database, found, apart, now)
            return Written(taken, changed=bool(apart or sound))

        def rest(id_: int) -> Sequence[Execution]:
            self._resting.note(id_, now)
            return ()

        def refused(id_: int, why: Exception) -> Sequence[Execution]:
            self._set_apart(id_, why, STARTABLE, now)
            return ()

        ids = self._choose_overdue(now, {**until, "limit": limit})

        return write_each(
            ids,
            take,
            refused=refused,
            doubted=lambda id_, why: pass_over(self._database, id_, why, now),
            locked=rest,
            untried=lambda _: (),
        )

    @repeatable
    def _choose_overdue(self, now: datetime, asked: Mapping[str, Any]) -> Sequence[int]:
        passed_over = {*self._database.passed_over.at(now), *self._resting.at(now)}
        statement = excluding(statements.LONGEST_OVERDUE, executions.c.id, passed_over)
        with self._database.read("looking for what is overdue") as connection:
            return connection.scalars(statement, asked).all()

    def _set_apart(
        self, id_: int, why: Exception, states: Collection[State], now: datetime
    ) -> None:
        set_apart(self._database, id_, str(why), now, still=lambda seen: seen.state in states)

    @repeatable
    def unfinished(self, *, after: int, limit: int) -> Sequence[Execution]:
        with self._database.read("listing what is unfinished") as connection:
            rows = connection.execute(statements.OF_UNFINISHED, {"after": after, "limit": limit})
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
        asked = {"now": now, "horizon": now + FARTHEST}
        strays = excluding(statements.STRAYS, executions.c.id, self._database.passed_over.at(now))
        with self._database.read("looking for what nobody would find") as connection:
            ids = connection.scalars(strays, {**asked, "limit": limit}).all()

        @repeatable_unless_locked
        def give_time(part: Sequence[int]) -> Written[int]:
            with self._database.write("finding what nobody would find") as connection:
                free = list(lock_rows(connection, statements.UNLOCKED, part))
                found = connection.execute(statements.REGAIN, {**asked, "ids": free}).rowcount
            return Written([found], changed=found > 0)

        def refused(id_: int, why: Exception) -> Sequence[int]:
            self._set_apart(id_, why, UNFINISHED, now)
            return ()

        def rest(id_: int) -> Sequence[int]:
            self._database.passed_over.note(id_, now)
            return ()

        found = write_each(
            ids,
            give_time,
            refused=refused,
            doubted=lambda id_, why: pass_over(self._database, id_, why, now),
            locked=rest,
            untried=lambda _: (),
        )
        return sum(found)

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

        apart = set[int]()

        @repeatable_unless_locked
        def quarantine(part: Sequence[Execution]) -> Written[None]:
            with self._database.write("setting broken executions apart") as connection:
                ids = [execution.id for execution in part]
                statement = BY_IDS.with_for_update(skip_locked=True)
                still = executions_of(connection, connection.execute(statement, {"ids": ids}))
                done = set_broken_apart(connection, still, now)
            apart.update(done)
            return Written((), changed=bool(done))

        with suppress(StatementFailed):  # what cannot be set apart now rests
            write_each(broken, quarantine, refused=lambda _one, _why: (), locked=lambda _one: ())
        return as_set_apart(self._database, found, apart, now)


class PublishedMarks(StorePart):
    """The part of `ClaimStorePort` that is about messages which are in a queue."""

    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `ClaimStorePort.mark_published`.

        A locked one begins just now, or is found again and sent once more.
        """

        @repeatable_unless_locked
        def mark(part: Sequence[Execution]) -> Written[None]:
            with self._database.write("marking what was published") as connection:
                seen = lock_rows(connection, statements.UNLOCKED, [one.id for one in part])
                marked = [
                    (sent, publish(sent, now=now))
                    for sent in sorted(part, key=attrgetter("id"))
                    if (row := seen.get(sent.id)) and is_as_sent(sent, row.state, row.attempt)
                ]
                write_changes(connection, self._database.dialect, marked)
            return Written((), changed=any(after is not sent for sent, after in marked))

        def refused(sent: Execution, why: Exception) -> Sequence[None]:
            _set_apart(self._database, sent, why, now)
            return ()

        write_each(
            executions,
            mark,
            refused=refused,
            locked=lambda _: (),
            doubted=lambda sent, why: pass_over(self._database, sent.id, why, now),
        )

    def hand_over(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `ClaimStorePort.hand_over`. Locked ones do not keep the others from it."""

        def write(part: Sequence[Execution]) -> Written[Execution]:
            # First those that are not locked, and then it waits for the others: what is not marked
            # is sent again, and another program's worker cannot tell that its message is a copy.
            free, changed = self._hand_over_these(statements.UNLOCKED, part, now=now)
            if rest := [one for one in part if one.id not in free]:
                _, later = self._hand_over_these(statements.ALL, rest, now=now)
                changed = changed or later
            return Written((), changed)

        def refused(sent: Execution, why: Exception) -> Sequence[Execution]:
            _set_apart(self._database, sent, why, now)
            return ()

        locked = write_each(
            executions,
            write,
            refused=refused,
            locked=lambda one: [one],
            doubted=lambda sent, why: pass_over(self._database, sent.id, why, now),
        )
        if locked:
            which = listed([str(one.id) for one in locked])
            text = f"handing executions over: somebody keeps rows of execution {which} locked"
            raise LedgerUnavailable(text)

    @repeatable_unless_locked
    def _hand_over_these(
        self, statement: Select[Any], found: Sequence[Execution], *, now: datetime
    ) -> tuple[frozenset[int], bool]:
        """Give the ids that *statement* could lock, and whether any is handed over now."""
        with self._database.write("handing executions over") as connection:
            seen = lock_rows(connection, statement, [one.id for one in found])
            waiting = [
                msgspec.structs.replace(sent, state=State(row.state), published_at=row.published_at)
                for sent in sorted(found, key=attrgetter("id"))
                if (row := seen.get(sent.id)) and may_hand_over(sent, row.state, row.attempt)
            ]
            handed_over = [(one, hand_over(one, now=now)) for one in waiting]
            write_changes(connection, self._database.dialect, handed_over)
        return frozenset(seen), bool(waiting)


def _set_apart(database: Database, sent: Execution, why: Exception, now: datetime) -> None:
    def still(seen: Execution) -> bool:
        return (seen.state, seen.attempt) == (sent.state, sent.attempt)

    set_apart(database, sent.id, str(why), now, still=still)
