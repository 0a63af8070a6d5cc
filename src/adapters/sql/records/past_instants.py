"""What a backfill is about: past instants of a schedule, claimed as it goes on."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

import attrs
import msgspec
from sqlalchemy import Connection, Row, bindparam, select

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.backfill import (
    BackfillOrder,
    claim_past,
    instants,
    may_be_filled_up_to,
    moment_of_second,
    second_of,
    why_not_filled,
)
from cronhare.domain.lifecycle.replay import Allowance
from cronhare.domain.lifecycle.replay_pace import ItemState, Replay
from cronhare.domain.schedules.circumstances import Circumstances
from cronhare.domain.schedules.keys import backfill_key, keys_of_instant
from cronhare.domain.schedules.schedule import BrokenSchedule, Schedule

from ..claims.apply_plans import select_schedules, with_pauses
from ..dialect import Dialect
from ..mapping.calendar_rows import find_calendars
from ..mapping.execution_rows import batches
from ..mapping.idle_plans import read_idle
from ..mapping.schedule_rows import schedule_of
from ..schema.tables import executions, plans, schedulers
from .replay_items import (
    COLLECTED_AT_ONCE,
    Begun,
    Collected,
    Found,
    add_items,
    come_to,
    note_executions,
)

_THIS: Final = (
    select_schedules()
    .select_from(with_pauses(schedulers.outerjoin(plans, schedulers.c.id == plans.c.scheduler_id)))
    .where(schedulers.c.id == bindparam("scheduler_id"))
)
_RAN: Final = select(executions.c.execution_key).where(
    executions.c.scheduler_id == bindparam("scheduler_id"),
    executions.c.execution_key.in_(bindparam("keys", expanding=True)),
    executions.c.state != State.SKIPPED.value,
)

#: Instants whose keys are asked for in one statement: each has up to four.
_ASKED_AT_ONCE: Final = 1_000


def have_run(
    connection: Connection, scheduler_id: int, due: Sequence[datetime]
) -> Collection[datetime]:
    found = set[datetime]()
    for part in batches(list(due), _ASKED_AT_ONCE):
        of_key = {key: one for one in part for key in (*keys_of_instant(one), backfill_key(one))}
        asked = {"scheduler_id": scheduler_id, "keys": list(of_key)}
        found |= {of_key[key] for key in connection.scalars(_RAN, asked) if key in of_key}
    return found


@attrs.define
class PastInstants:
    """Satisfies `WorkList`. An item's number is its second since 1970."""

    _connection: Connection
    _dialect: Dialect
    _now: datetime
    _allowance: Allowance
    _order: BackfillOrder = attrs.field(kw_only=True)
    _node: str = attrs.field(kw_only=True)
    _row: Row[Any] | None = attrs.field(init=False)
    _schedule: Schedule | BrokenSchedule | None = attrs.field(init=False)
    _circumstances: Circumstances = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        asked = {"scheduler_id": self._order.scheduler_id}
        self._row = self._connection.execute(_THIS, asked).first()
        self._schedule = None if self._row is None else schedule_of(self._row)
        conditions = getattr(self._schedule, "conditions", None)
        names = set() if conditions is None else set(conditions.calendars)
        self._circumstances = Circumstances(calendars=find_calendars(self._connection, names))

    def why_impossible(self) -> str:
        return why_not_filled(self._schedule, self._circumstances)

    def collect(self, found: Replay) -> Collected:
        last, before = self._last(found), come_to(self._connection, found)
        schedule = self._schedule
        if last is None or last <= before or not isinstance(schedule, Schedule):
            return Collected(up_to=before)
        begins, _ = self._order.span  # whatever a hand wrote of how far it has come
        first = max(before + 1, begins)
        due = instants(schedule, self._circumstances, first=first, last=last)
        looked = [*islice(due, COLLECTED_AT_ONCE)]
        wanted = [one for one, why_not in looked if why_not is None]
        ran = have_run(self._connection, schedule.id, wanted)
        states = {
            second_of(one): ItemState.REFUSED if one in ran else ItemState.WAITING for one in wanted
        }
        add_items(self._connection, found.id, states, key="")
        is_full = len(looked) == COLLECTED_AT_ONCE
        return Collected(
            new=len(wanted) - len(ran),
            refused=len(ran),
            left_out=len(looked) - len(wanted),
            up_to=second_of(looked[-1][0]) if is_full else last,
        )

    def take(self, chosen: Mapping[int, int]) -> Found:
        """See `WorkList.take`. None has a row yet that could be locked."""
        return Found(free=dict.fromkeys(sorted(chosen)))

    def begin(self, seen: Replay, found: Found, begins: Sequence[datetime]) -> Begun:
        """See `WorkList.begin`. The ledger's unique key is the judge of what has run before."""
        assert isinstance(self._schedule, Schedule), "or it would be impossible"
        wanted = [
            claim_past(
                self._schedule,
                moment_of_second(second),
                now=self._now,
                node=self._node,
                begins=at,
                allowance=self._allowance,
            )
            for second, at in zip(found.free, begins, strict=False)
        ]
        if not wanted:
            return Begun()
        ids = self._dialect.insert_executions(self._connection, wanted)
        claimed = zip(wanted, ids, strict=True)
        inserted = {second_of(one.due_at): (one, id_) for one, id_ in claimed}
        begun = {
            second: msgspec.structs.replace(one, id=id_)
            for second, (one, id_) in inserted.items()
            if id_
        }
        note_executions(self._connection, self._dialect, seen.id, begun)
        return Begun(begun=begun, refused=inserted.keys() - begun.keys())

    def _last(self, found: Replay) -> int | None:
        """Find up to which second nobody else is to claim instants."""
        row = self._row
        assert row is not None, "or it would be impossible"
        next_due = row.next_due_at or (None if read_idle(row) else row.resume_at)
        return may_be_filled_up_to(
            found.up_to,
            is_planned=bool(row.is_current),
            next_due=next_due if isinstance(next_due, datetime) else None,
            now=self._now,
        )
