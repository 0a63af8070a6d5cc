"""Marking executions whose messages are in queues, ours or another program's."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

import msgspec
from sqlalchemy import Select

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.transitions import hand_over, is_as_sent, may_hand_over, publish
from cronhare.domain.texts.listing import listed
from cronhare.ports.errors import LedgerUnavailable

from ..isolation import Written, pass_over, set_apart, write_each
from ..mapping.transition_columns import write_changes
from ..transactions.database import Database, StorePart, repeatable_unless_locked
from . import statements
from .statements import lock_rows


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
