"""Marking executions whose messages are in queues, ours or another program's."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
from sqlalchemy import Select

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.transitions import hand_over, is_as_sent, may_hand_over, publish
from cronhare.domain.texts.listing import listed
from cronhare.ports.ledger import LedgerUnavailable

from ..isolation.batches import write_isolated
from ..isolation.suspects import Suspects
from ..mapping.transition_columns import write_changes
from ..transactions.database import Database, StorePart, repeatable
from ..transactions.lock_waits import LockWaitBudget
from . import statements
from .statements import lock_rows


class PublishedMarks(StorePart):
    """The part of `ClaimStorePort` that is about messages which are in a queue."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._marked, self._handed_over = Suspects(), Suspects()
        self._marks_budget = LockWaitBudget()

    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        write_isolated(
            self._database,
            executions,
            partial(self._mark_these, now=now),
            now=now,
            suspects=self._marked,
            budget=self._marks_budget,
        )

    @repeatable
    def _mark_these(self, found: Sequence[Execution], *, now: datetime) -> Collection[int]:
        """Mark what is as it was sent, and give the ids of that.

        A locked one begins just now, or is found again and sent once more.
        """
        with self._database.write("marking what was published") as connection:
            seen = lock_rows(connection, statements.UNLOCKED, [one.id for one in found])
            marked = [
                (sent, publish(sent, now=now))
                for sent in sorted(found, key=attrgetter("id"))
                if (row := seen.get(sent.id)) and is_as_sent(sent, row.state, row.attempt)
            ]
            write_changes(connection, self._database.dialect, marked)
        return {sent.id for sent, after in marked if after is not sent}

    def hand_over(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `ClaimStorePort.hand_over`. Locked ones do not keep the others from it."""
        locked = list[Execution]()
        write_isolated(
            self._database,
            executions,
            partial(self._hand_over, now=now),
            now=now,
            suspects=self._handed_over,
            budget=LockWaitBudget(),  # a new one: each call waits for the first lock
            locked=locked.append,
        )
        if locked:
            which = listed([str(one.id) for one in locked])
            text = f"handing executions over: somebody keeps rows of execution {which} locked"
            raise LedgerUnavailable(text)

    def _hand_over(self, executions: Sequence[Execution], *, now: datetime) -> Collection[int]:
        """Hand them over, first those that are not locked.

        It waits for the others: what is not marked is sent again, and another program's worker
        cannot tell that its message is a copy.
        """
        free, written = self._hand_over_these(statements.UNLOCKED, executions, now=now)
        if rest := [one for one in executions if one.id not in free]:
            _, later = self._hand_over_these(statements.ALL, rest, now=now)
            return {*written, *later}
        return written

    @repeatable
    def _hand_over_these(
        self, statement: Select[Any], found: Sequence[Execution], *, now: datetime
    ) -> tuple[Collection[int], Collection[int]]:
        """Give the ids that *statement* could lock, and those that are handed over now."""
        with self._database.write("handing executions over") as connection:
            seen = lock_rows(connection, statement, [one.id for one in found])
            waiting = [
                msgspec.structs.replace(sent, state=State(row.state), published_at=row.published_at)
                for sent in sorted(found, key=attrgetter("id"))
                if (row := seen.get(sent.id)) and may_hand_over(sent, row.state, row.attempt)
            ]
            handed_over = [(one, hand_over(one, now=now)) for one in waiting]
            write_changes(connection, self._database.dialect, handed_over)
        return seen.keys(), [one.id for one in waiting]
