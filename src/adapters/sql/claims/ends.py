"""Which messages are in a queue, of starts and of ends; and what ends while it waits."""

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, case, or_, select, update

from cronhare.application.logs import say
from cronhare.domain.execution import WAITING, Execution, Graces, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.transitions import (
    cancel,
    expire,
    hand_over,
    has_expired,
    is_as_sent,
    may_hand_over,
    publish,
)
from cronhare.domain.messages import AttemptRef
from cronhare.domain.texts.words import listed
from cronhare.ports import LedgerUnavailable

from ..database import Database, StorePart, repeatable, repeatable_unless_locked
from ..dialect import Cooldown, excluding
from ..tables.executions import BY_IDS, executions_of, in_states, is_in
from ..tables.tables import IDS, by_id, executions, failed_tasks
from ..tables.types import moment_of
from ..writing import Written, read_archived, write_changes, write_each, write_executions
from .reconciliation import lock_rows, write_ids

_RUN: Final = executions.c

log = logging.getLogger(__name__)

#: Cancelled in one transaction.
_AT_ONCE: Final = 1_000

#: There is no index of the flag, nor of the time, which each new row would pay for.
_UNWANTED: Final = (
    select(_RUN.id)
    .where(
        in_states(WAITING),
        or_(_RUN.cancel_requested == 1, _RUN.expires_at < moment_of("now")),
    )
    .limit(bindparam("limit"))
)
_ASKED: Final = BY_IDS.with_for_update(skip_locked=True)


class AskedEnds(StorePart):
    """The part of `ClaimStorePort` that cancels what waits, or lets it expire."""

    def end_waiting(self, *, now: datetime, limit: int) -> Sequence[Execution]:
        asked = self._look(limit, now)
        parts = (asked[at : at + _AT_ONCE] for at in range(0, len(asked), _AT_ONCE))
        return [one for part in parts for one in self._cancel(part, now)]

    @repeatable
    def _look(self, limit: int, now: datetime) -> Sequence[int]:
        with self._database.read("looking for what waits no more") as connection:
            return connection.scalars(_UNWANTED, {"now": now, "limit": limit}).all()

    def _cancel(self, ids: Sequence[int], now: datetime) -> Sequence[Execution]:
        @repeatable_unless_locked
        def end(part: Sequence[int]) -> Written[Execution]:
            with self._database.write("ending what waits no more") as connection:
                rows: Any = connection.execute(_ASKED, {"ids": list(part)})
                # A broken row is set apart by who finds it overdue.
                found = [one for one in executions_of(connection, rows) if one.problem is None]
                ended = [
                    (one, cancel(one, now=now) if one.cancel_requested else expire(one, now=now))
                    for one in found
                    if one.state in WAITING and (one.cancel_requested or has_expired(one, now=now))
                ]
                write_changes(connection, ended)
            return Written([after for _, after in ended], changed=bool(ended))

        return write_ids(self._database, ids, end, now, states=WAITING)


_IS_OVERDUE: Final = failed_tasks.c.check_at <= moment_of("until")

_OVERDUE_IDS: Final = (
    select(failed_tasks.c.id)
    .where(_IS_OVERDUE)
    .order_by(failed_tasks.c.check_at, failed_tasks.c.id)
    .limit(bindparam("limit"))
)
# Chosen first and taken then, as what is overdue to begin.
_OVERDUE: Final = (
    select(failed_tasks)
    .where(failed_tasks.c.id.in_(IDS), _IS_OVERDUE)
    .order_by(failed_tasks.c.check_at, failed_tasks.c.id)
    .with_for_update(skip_locked=True)
)
_OF_ATTEMPTS: Final = (
    select(failed_tasks.c.id, failed_tasks.c.execution_id, failed_tasks.c.attempts)
    .where(failed_tasks.c.execution_id.in_(IDS), failed_tasks.c.check_at.is_not(None))
    .with_for_update(skip_locked=True)
)
_CHECK: Final = (
    update(failed_tasks).where(failed_tasks.c.id.in_(IDS)).values(check_at=moment_of("at"))
)


class UnconfirmedEnds(StorePart):
    """The part of `ClaimStorePort` that is about ends. Locked rows rest for a minute."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._resting_ends = Cooldown()

    def mark_ends_published(self, ends: Collection[AttemptRef]) -> None:
        """See `ClaimStorePort.mark_ends_published`. What is refused or locked stays overdue."""

        @repeatable_unless_locked
        def mark(part: Sequence[AttemptRef]) -> Written[None]:
            with self._database.write("marking ends as published") as connection:
                asked = {"ids": [end.execution_id for end in part]}
                rows = connection.execute(_OF_ATTEMPTS, asked).all()
                told = {(end.execution_id, end.attempt) for end in part}
                ids = [row.id for row in rows if (row.execution_id, row.attempts) in told]
                if ids:
                    connection.execute(_CHECK, {"ids": ids, "at": None})
                return Written((), changed=bool(ids))

        ordered = sorted(ends, key=attrgetter("execution_id"))
        write_each(ordered, mark, refused=lambda *_: (), locked=lambda _: ())

    def overdue_ends(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Archived]:
        """See `ClaimStorePort.overdue_ends`. Most looks find nothing, and take no lock."""
        until = now - graces.ended

        @repeatable_unless_locked
        def take(part: Sequence[int]) -> Written[Archived]:
            with self._database.write("taking ends that are overdue") as connection:
                found = connection.execute(_OVERDUE, {"ids": part, "until": until}).all()
                sound = read_archived(found)
                if sound:
                    connection.execute(_CHECK, {"ids": [one.id for one in sound], "at": now})
            for id_ in set(part).difference(row.id for row in found):
                rest(id_)
            return Written(sound, changed=bool(found))

        def rest(id_: int) -> Sequence[Archived]:
            self._resting_ends.note(id_, now)
            return ()

        def refused(id_: int, why: Exception) -> Sequence[Archived]:
            text = f"The message of an end for good has to wait: {why}"
            say(log, logging.ERROR, "ledger.refused", text)
            return rest(id_)

        ids = self._choose_ends(now, until, limit)
        return write_each(ids, take, refused=refused, locked=rest, untried=lambda _: ())

    @repeatable
    def _choose_ends(self, now: datetime, until: datetime, limit: int) -> Sequence[int]:
        statement = excluding(_OVERDUE_IDS, failed_tasks.c.id, self._resting_ends.at(now))
        with self._database.read("looking for ends that are overdue") as connection:
            return connection.scalars(statement, {"until": until, "limit": limit}).all()


_CLAIMED: Final = (
    by_id(select(_RUN.id))
    .where(is_in(State.CLAIMED), _RUN.attempt == bindparam("attempt"))
    .with_for_update(skip_locked=True)
)
_NOW: Final = moment_of("now")
#: As `transitions.publish` of what is still claimed, without a look at whole rows.
_PUBLISH: Final = by_id(update(executions)).values(
    state=State.PUBLISHED.value,
    version=_RUN.version + 1,
    published_at=_NOW,
    check_at=case((_RUN.next_attempt_at > _NOW, _RUN.next_attempt_at), else_=_NOW),
)


#: Seconds before each look for what is locked: what is not marked is sent again, and another
#: program's worker cannot tell that its message is a copy.
LOOKS: Final = (0.0, 0.02, 0.2, 0.8, 2.0)


class PublishedMarks(StorePart):
    """The part of `ClaimStorePort` that is about messages which are in a queue."""

    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `ClaimStorePort.mark_published`.

        A locked one begins just now, or is found again and sent once more.
        """

        @repeatable_unless_locked
        def mark(part: Sequence[Execution]) -> Written[None]:
            claimed = defaultdict[int, list[int]](list)
            for sent in part:
                if sent.state is State.CLAIMED:
                    claimed[sent.attempt].append(sent.id)
            again = [sent for sent in part if sent.state is not State.CLAIMED]
            with self._database.write("marking what was published") as connection:
                ids = [
                    id_
                    for attempt, sent_ids in claimed.items()
                    for id_ in connection.scalars(_CLAIMED, {"ids": sent_ids, "attempt": attempt})
                ]
                if ids:
                    connection.execute(_PUBLISH, {"ids": ids, "now": now})
                seen = lock_rows(connection, [one.id for one in again]) if again else {}
                marked = [
                    (sent, publish(sent, now=now))
                    for sent in sorted(again, key=_id_of)
                    if (row := seen.get(sent.id)) and is_as_sent(sent, row.state, row.attempt)
                ]
                write_changes(connection, marked)
            return Written((), changed=bool(ids) or any(new is not old for old, new in marked))

        write_executions(self._database, executions, mark, now, id_of=_id_of, still=_is_still)

    def hand_over(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `ClaimStorePort.hand_over`. Locked ones do not keep the others from it."""

        @repeatable_unless_locked
        def write(part: Sequence[Execution]) -> Written[Execution]:
            with self._database.write("handing executions over") as connection:
                seen = lock_rows(connection, [one.id for one in part])
                waiting = [
                    msgspec.structs.replace(
                        sent, state=State(row.state), published_at=row.published_at
                    )
                    for sent in sorted(part, key=_id_of)
                    if (row := seen.get(sent.id)) and may_hand_over(sent, row.state, row.attempt)
                ]
                handed_over = [(one, hand_over(one, now=now)) for one in waiting]
                write_changes(connection, handed_over)
            return Written([one for one in part if one.id not in seen], changed=bool(waiting))

        left = executions
        for pause in LOOKS:
            time.sleep(pause)
            left = write_executions(self._database, left, write, now, id_of=_id_of, still=_is_still)
            if not left:
                return
        which = listed([str(one.id) for one in left])
        text = f"handing executions over: somebody keeps rows of execution {which} locked"
        raise LedgerUnavailable(text)


_id_of: Final = attrgetter("id")


def _is_still(sent: Execution, seen: Execution) -> bool:
    return is_as_sent(sent, seen.state, seen.attempt)
