"""Marks of what was published: of executions whose messages are in queues, ours or others'."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import Select, Update

from cronhare.domain.execution import STARTABLE, Execution, State
from cronhare.domain.listing import listed
from cronhare.ports.ledger import LedgerUnavailable

from . import waiting
from .database import Database, repeatable
from .lock_waits import Hurry
from .many_at_once import do_with_each
from .suspects import Suspects
from .waiting import hold


class Marks:
    """The part of `ClaimStorePort` that is about messages which are in a queue."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._free = database.dialect.locking(waiting.THESE, pass_over=True)
        self._all = database.dialect.locking(waiting.THESE, pass_over=False)
        self._marked, self._handed_over = Suspects(), Suspects()
        self._hurry = Hurry()

    def published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `ClaimStorePort.mark_published`. What was sent again has a mark of its own."""
        claimed = [one for one in executions if one.state is State.CLAIMED]
        resent = [one for one in executions if one.state is not State.CLAIMED]
        marked = partial(
            do_with_each, self._database, now=now, suspects=self._marked, hurry=self._hurry
        )
        marked(claimed, partial(self._mark_claimed, now=now))
        marked(resent, partial(self._mark_resent, now=now))

    @repeatable
    def _mark_claimed(self, executions: Sequence[Execution], *, now: datetime) -> Collection[int]:
        return self._mark(waiting.MARK_CLAIMED, partial(waiting.claimed_marks, now=now), executions)

    @repeatable
    def _mark_resent(self, executions: Sequence[Execution], *, now: datetime) -> Collection[int]:
        return self._mark(waiting.MARK_RESENT, partial(waiting.resent_marks, now=now), executions)

    def _mark(
        self,
        statement: Update,
        marks_of: Callable[[Sequence[Execution]], Iterable[dict[str, Any]]],
        found: Sequence[Execution],
    ) -> Collection[int]:
        """Mark what is as it was found, and give the ids of that.

        What somebody holds begins just now, or is found again and sent once more.
        """
        with self._database.write("marking what was published") as connection:
            seen = hold(connection, self._free, [one.id for one in found])
            same = [one for one in found if seen.get(one.id) == (one.state, one.attempt)]
            marks = sorted(marks_of(same), key=itemgetter("told_id"))
            self._database.dialect.update_many(connection, statement, marks)
        return {mark["told_id"] for mark in marks}

    def hand_over(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `ClaimStorePort.hand_over`. All others are handed over beside what somebody holds."""
        held = list[Execution]()
        do_with_each(
            self._database,
            executions,
            partial(self._hand_over, now=now),
            now=now,
            suspects=self._handed_over,
            hurry=Hurry(),  # each time somebody waits for the first
            held=held.append,
        )
        if held:
            which = listed([str(one.id) for one in held])
            text = f"handing executions over: somebody keeps rows of execution {which} locked"
            raise LedgerUnavailable(text)

    def _hand_over(self, executions: Sequence[Execution], *, now: datetime) -> Collection[int]:
        """Hand them over, those that nobody holds first.

        For the others it waits: what is not marked is sent again, and nothing tells another
        program's worker that its message is a copy.
        """
        free, written = self._hand_over_these(self._free, executions, now=now)
        if rest := [one for one in executions if one.id not in free]:
            _, later = self._hand_over_these(self._all, rest, now=now)
            return {*written, *later}
        return written

    @repeatable
    def _hand_over_these(
        self, look: Select[Any], found: Sequence[Execution], *, now: datetime
    ) -> tuple[Collection[int], Collection[int]]:
        """Give the ids of those that *look* could hold, and of those that are handed over now."""
        with self._database.write("handing executions over") as connection:
            seen = hold(connection, look, [one.id for one in found])
            startable = [
                one
                for one in sorted(found, key=attrgetter("id"))
                if any(seen.get(one.id) == (state, one.attempt) for state in STARTABLE)
            ]
            told = [
                {"told_id": one.id, "told_attempt": one.attempt, "now": now} for one in startable
            ]
            self._database.dialect.update_many(connection, waiting.HAND_OVER, told)
        return seen.keys(), [one.id for one in startable]
