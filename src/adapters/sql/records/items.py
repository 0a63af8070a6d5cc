"""The items of a replay: failures of the archive; or of a backfill: past instants of a schedule."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

import attrs
import msgspec
from sqlalchemy import Connection, bindparam, select, update

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.claims import (
    REPLAYED,
    Allowance,
    claim_past,
    instants,
    may_be_filled_up_to,
    replay,
    why_not_filled,
    why_not_replayed,
)
from cronhare.domain.lifecycle.orders import (
    BackfillOrder,
    ItemState,
    Replay,
    ReplayOrder,
    moment_of_second,
    second_of,
)
from cronhare.domain.schedules.keys import backfill_key, keys_of_instant
from cronhare.domain.schedules.schedule import Schedule
from cronhare.domain.schedules.skips import Circumstances

from ..attempt_ends import locked_elsewhere
from ..dialect import dialect_of
from ..tables.executions import BY_IDS, batches, find_executions
from ..tables.schedules import find_calendars, read_idle, schedule_of, select_schedules
from ..tables.tables import IDS, executions, failed_tasks, plans, replay_items, schedulers
from ..writing import read_archived, write_changes
from .archive import resolve, those_of

#: A step looks at so many instants, or rows of the archive. An instant has up to four keys.
COLLECTED_AT_ONCE: Final = 1_000

_FAILURE: Final = failed_tasks.c
_THESE: Final = _FAILURE.id.in_(IDS)
_UNRESOLVED: Final = select(_FAILURE.id).where(_THESE, _FAILURE.resolution.is_(None))
_UNLOCKED_FAILURES: Final = _UNRESOLVED.with_for_update(skip_locked=True)
_UNLOCKED: Final = BY_IDS.with_for_update(skip_locked=True)

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


class Item(NamedTuple):
    """A new item; its *number* is that of its row in the archive, or its second since 1970."""

    number: int
    execution_id: int = 0
    key: str = ""
    state: ItemState = ItemState.WAITING


@attrs.frozen(kw_only=True)
class Collected:
    """New items, how many instants were *left out*, and *up_to* where the step looked."""

    items: Sequence[Item] = ()
    left_out: int = 0
    up_to: int


#: The executions that have begun by their items, and the items that never can.
Begun = tuple[Mapping[int, Execution], Collection[int]]


@attrs.frozen
class Failures:
    """The failures of an order."""

    connection: Connection
    order: ReplayOrder
    allowance: Allowance
    now: datetime

    def collect(self, found: Replay) -> Collected:
        # What is long is not read, unless the key is in it.
        unread: dict[str, Any] = {"error": None, "note": None}
        if not self.order.reads_params:
            unread["params"] = "{}"
        page = (
            select(*(column for column in _FAILURE if column.name not in unread))
            .where(
                _FAILURE.id > found.collected_to,
                _FAILURE.id <= found.up_to,
                *those_of(self.order.which),
            )
            .order_by(_FAILURE.id)
            .limit(COLLECTED_AT_ONCE)
        )
        rows = self.connection.execute(page).all()
        return Collected(
            items=[
                Item(row.id, row.execution_id, self.order.key_of(row))
                for row in read_archived(rows, **unread)
            ],
            up_to=rows[-1].id if len(rows) == COLLECTED_AT_ONCE else found.up_to,
        )

    def begin(self, replay_id: int, chosen: Mapping[int, int], begins: Sequence[datetime]) -> Begun:
        """Replay the executions of these rows, but for those that somebody has locked."""
        ids = {"ids": list(chosen)}
        refused = chosen.keys() - set(self.connection.scalars(_UNRESOLVED, ids))
        unlocked = sorted(self.connection.scalars(_UNLOCKED_FAILURES, ids))
        wanted = {chosen[id_] for id_ in unlocked}
        found = find_executions(self.connection, _UNLOCKED, wanted)
        locked = locked_elsewhere(self.connection, wanted - found.keys())
        free = dict[int, Execution]()
        for id_ in unlocked:
            execution = found.pop(chosen[id_], None)  # of two rows of one the older is replayed
            if execution is not None and not (
                execution.cancel_requested  # nobody has named it since
                or why_not_replayed(execution)
            ):
                free[id_] = execution
            elif chosen[id_] not in locked:
                refused.add(id_)
        begun = {
            id_: replay(one, begins=at, allowance=self.allowance)
            for (id_, one), at in zip(free.items(), begins, strict=False)
        }
        if begun:
            changes = [(free[id_], after) for id_, after in begun.items()]
            write_changes(self.connection, changes)
            resolve(self.connection, begun, REPLAYED, self.now, f"replay {replay_id}")
        return begun, refused


def have_run(
    connection: Connection, scheduler_id: int, due: Sequence[datetime]
) -> Collection[datetime]:
    found = set[datetime]()
    for part in batches(list(due), COLLECTED_AT_ONCE):
        of_key = {key: one for one in part for key in (*keys_of_instant(one), backfill_key(one))}
        asked = {"scheduler_id": scheduler_id, "keys": list(of_key)}
        found |= {of_key[key] for key in connection.scalars(_RAN, asked) if key in of_key}
    return found


class PastInstants:
    """The instants of an order."""

    def __init__(
        self,
        connection: Connection,
        order: BackfillOrder,
        allowance: Allowance,
        *,
        now: datetime,
        node: str,
    ) -> None:
        self._connection = connection
        self._allowance = allowance
        self._now = now
        self._node = node
        self._row = connection.execute(_SCHEDULE, {"scheduler_id": order.scheduler_id}).first()
        self._schedule = None if self._row is None else schedule_of(self._row)
        conditions = getattr(self._schedule, "conditions", None)
        names = set() if conditions is None else set(conditions.calendars)
        self._circumstances = Circumstances(calendars=find_calendars(connection, names))

    def why_impossible(self) -> str:
        """Say why nothing of it can go on; empty if it can."""
        return why_not_filled(self._schedule, self._circumstances)

    def collect(self, found: Replay) -> Collected:
        """Look at some more instants, but at none that a scheduler is still to claim."""
        row, schedule, before = self._row, self._schedule, found.collected_to
        assert row is not None, "or it would be impossible"
        assert isinstance(schedule, Schedule), "likewise"
        last = may_be_filled_up_to(
            found.up_to,
            is_planned=bool(row.is_current),
            next_due=row.next_due_at or (None if read_idle(row) else row.resume_at),
            now=self._now,
        )
        if last is None or last <= before:
            return Collected(up_to=before)
        due = instants(schedule, self._circumstances, first=before + 1, last=last)
        looked = [*islice(due, COLLECTED_AT_ONCE)]
        wanted = [one for one, why_not in looked if why_not is None]
        ran = have_run(self._connection, schedule.id, wanted)
        is_full = len(looked) == COLLECTED_AT_ONCE
        return Collected(
            items=[
                Item(second_of(one), state=ItemState.REFUSED if one in ran else ItemState.WAITING)
                for one in wanted
            ],
            left_out=len(looked) - len(wanted),
            up_to=second_of(looked[-1][0]) if is_full else last,
        )

    def begin(self, replay_id: int, chosen: Mapping[int, int], begins: Sequence[datetime]) -> Begun:
        """Claim each at its moment, but for those whose keys are taken."""
        assert isinstance(self._schedule, Schedule), "or it would be impossible"
        wanted = {
            second: claim_past(
                self._schedule,
                moment_of_second(second),
                now=self._now,
                node=self._node,
                begins=at,
                allowance=self._allowance,
            )
            for second, at in zip(sorted(chosen), begins, strict=False)
        }
        ids = dialect_of(self._connection).insert_executions(self._connection, [*wanted.values()])
        begun = {
            second: msgspec.structs.replace(one, id=id_)
            for (second, one), id_ in zip(wanted.items(), ids, strict=True)
            if id_
        }
        rows = [{"of_replay": replay_id, "item": it, "run": one.id} for it, one in begun.items()]
        if rows:
            dialect_of(self._connection).update_many(self._connection, _NOTE, rows)
        return begun, chosen.keys() - begun.keys()
