"""What a backfill is about: past instants of a schedule, claimed as it goes on."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Any, Final

import attrs
import msgspec
from sqlalchemy import Connection, Row, bindparam, select, update

from cronhare.domain.execution import Execution, State
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

from ..claims.plans import select_schedules
from ..dialect import Dialect
from ..rows.executions import batches
from ..rows.schedules import find_calendars, read_idle, schedule_of
from ..schema.tables import executions, plans, replay_items, schedulers

#: So many instants, or rows of the archive, one step looks at. An instant has up to four keys.
COLLECTED_AT_ONCE: Final = 1_000

_SCHEDULE: Final = (
    select_schedules()
    .select_from(schedulers.outerjoin(plans, schedulers.c.id == plans.c.scheduler_id))
    .where(schedulers.c.id == bindparam("scheduler_id"))
)
_RAN: Final = select(executions.c.execution_key).where(
    executions.c.scheduler_id == bindparam("scheduler_id"),
    executions.c.execution_key.in_(bindparam("keys", expanding=True)),
    executions.c.state != State.SKIPPED.value,
)
_NOTE: Final = (
    update(replay_items)
    .where(
        replay_items.c.replay_id == bindparam("of_replay"),
        replay_items.c.archived_id == bindparam("item"),
    )
    .values(execution_id=bindparam("run"))
)


def have_run(
    connection: Connection, scheduler_id: int, due: Sequence[datetime]
) -> Collection[datetime]:
    found = set[datetime]()
    for part in batches(list(due), COLLECTED_AT_ONCE):
        of_key = {key: one for one in part for key in (*keys_of_instant(one), backfill_key(one))}
        asked = {"scheduler_id": scheduler_id, "keys": list(of_key)}
        found |= {of_key[key] for key in connection.scalars(_RAN, asked) if key in of_key}
    return found


@attrs.frozen(kw_only=True)
class Collected:
    """New items as rows, how many instants are *left out*, and *up_to* where it was looked."""

    items: Sequence[Mapping[str, Any]] = ()
    left_out: int = 0
    up_to: int


@attrs.frozen
class PastInstants:
    """The instants of an order. As an item, each has its second since 1970 for a number."""

    connection: Connection
    dialect: Dialect
    allowance: Allowance
    now: datetime
    order: BackfillOrder
    node: str

    @cached_property
    def _row(self) -> Row[Any] | None:
        asked = {"scheduler_id": self.order.scheduler_id}
        return self.connection.execute(_SCHEDULE, asked).first()

    @cached_property
    def _schedule(self) -> Schedule | BrokenSchedule | None:
        return None if self._row is None else schedule_of(self._row)

    @cached_property
    def _circumstances(self) -> Circumstances:
        conditions = getattr(self._schedule, "conditions", None)
        names = set() if conditions is None else set(conditions.calendars)
        return Circumstances(calendars=find_calendars(self.connection, names))

    def why_impossible(self) -> str:
        """Say why nothing of it can go on; empty if it can."""
        return why_not_filled(self._schedule, self._circumstances)

    def collect(self, found: Replay) -> Collected:
        """Look up some more, but none that a scheduler is still to claim."""
        row, schedule, before = self._row, self._schedule, found.collected_to
        assert row is not None, "or it would be impossible"
        assert isinstance(schedule, Schedule), "likewise"
        last = may_be_filled_up_to(
            found.up_to,
            is_planned=bool(row.is_current),
            next_due=row.next_due_at or (None if read_idle(row) else row.resume_at),
            now=self.now,
        )
        if last is None or last <= before:
            return Collected(up_to=before)
        due = instants(schedule, self._circumstances, first=before + 1, last=last)
        looked = [*islice(due, COLLECTED_AT_ONCE)]
        wanted = [one for one, why_not in looked if why_not is None]
        ran = have_run(self.connection, schedule.id, wanted)
        is_full = len(looked) == COLLECTED_AT_ONCE
        return Collected(
            items=[
                {
                    "replay_id": found.id,
                    "archived_id": second_of(one),
                    "execution_id": 0,
                    "item_key": "",
                    "state": (ItemState.REFUSED if one in ran else ItemState.WAITING).value,
                }
                for one in wanted
            ],
            left_out=len(looked) - len(wanted),
            up_to=second_of(looked[-1][0]) if is_full else last,
        )

    def lock(self, chosen: Mapping[int, int]) -> tuple[Sequence[int], set[int]]:
        """Give items that may begin, in order, and those that never can; others are locked.

        None has a row yet that could be. *chosen* has executions where they have any.
        """
        return sorted(chosen), set()

    def begin(self, replay_id: int, begins: Mapping[int, datetime]) -> Mapping[int, Execution]:
        """Claim items, each at its moment, but for those that the ledger's unique key knows."""
        assert isinstance(self._schedule, Schedule), "or it would be impossible"
        wanted = {
            second: claim_past(
                self._schedule,
                moment_of_second(second),
                now=self.now,
                node=self.node,
                begins=at,
                allowance=self.allowance,
            )
            for second, at in begins.items()
        }
        ids = self.dialect.insert_executions(self.connection, [*wanted.values()]) if wanted else ()
        begun = {
            second: msgspec.structs.replace(one, id=id_)
            for (second, one), id_ in zip(wanted.items(), ids, strict=True)
            if id_
        }
        rows = [{"of_replay": replay_id, "item": it, "run": one.id} for it, one in begun.items()]
        if rows:
            self.dialect.update_many(self.connection, _NOTE, rows)
        return begun
