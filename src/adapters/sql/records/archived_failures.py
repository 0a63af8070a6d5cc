"""What a replay of many is about: failures in the archive, begun anew."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs
from sqlalchemy import Connection, bindparam, select

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.replay import REPLAYED, Allowance, replay, why_left_out
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import Replay

from ..attempts.standing import locked_elsewhere
from ..dialect import Dialect
from ..mapping.execution_rows import BY_IDS, find_executions
from ..mapping.transition_columns import write_changes
from ..schema.tables import failed_tasks
from .archive import known_id, resolve
from .replay_items import Begun, Collected, Found, collect

_RESOLUTIONS: Final = select(failed_tasks.c.id, failed_tasks.c.resolution).where(
    failed_tasks.c.id.in_(bindparam("ids", expanding=True))
)
_UNLOCKED_FAILURES: Final = (
    select(failed_tasks.c.id)
    .where(
        failed_tasks.c.id.in_(bindparam("ids", expanding=True)),
        failed_tasks.c.resolution.is_(None),
    )
    .with_for_update(skip_locked=True)
)
_UNLOCKED: Final = BY_IDS.with_for_update(skip_locked=True)


@attrs.frozen
class ArchivedFailures:
    """Satisfies `WorkList`."""

    _connection: Connection
    _dialect: Dialect
    _now: datetime
    _allowance: Allowance
    _order: ReplayOrder = attrs.field(kw_only=True)

    def why_impossible(self) -> str:
        return ""

    def collect(self, found: Replay) -> Collected:
        return collect(self._connection, self._dialect, found, self._order)

    def take(self, chosen: Mapping[int, int]) -> Found:
        return _take(self._connection, chosen)

    def begin(self, seen: Replay, found: Found, begins: Sequence[datetime]) -> Begun:
        replayed = {
            archived_id: (before, replay(before, begins=begin, allowance=self._allowance))
            for begin, (archived_id, before) in zip(begins, found.free.items(), strict=False)
            if before is not None
        }
        if replayed:
            write_changes(self._connection, self._dialect, replayed.values())
            resolve(self._connection, replayed, REPLAYED, self._now, f"replay {seen.id}")
        begun = {archived_id: after for archived_id, (_, after) in replayed.items()}
        return Begun(begun=begun, refused=found.refused)


def _take(connection: Connection, chosen: Mapping[int, int]) -> Found:
    """Lock executions by their rows of the archive."""
    if not chosen:
        return Found()
    rows = connection.execute(_RESOLUTIONS, {"ids": list(chosen)}).all()
    unresolved = [row.id for row in rows if row.resolution is None]
    refused = chosen.keys() - set(unresolved)
    unlocked = set(connection.scalars(_UNLOCKED_FAILURES, {"ids": unresolved or [0]}))
    wanted = {id_: chosen[id_] for id_ in sorted(unlocked)}
    found = find_executions(connection, _UNLOCKED, wanted.values())
    locked = locked_elsewhere(connection, {known_id(id_) for id_ in wanted.values()} - found.keys())
    free: dict[int, Execution | None] = {}
    taken: set[int] = set()
    for archived_id, execution_id in wanted.items():
        execution = found.get(execution_id)
        if execution is None:
            refused |= set() if execution_id in locked else {archived_id}
        elif execution_id in taken or why_left_out(execution) is not None:
            refused |= {archived_id}
        else:
            taken.add(execution_id)
            free[archived_id] = execution
    return Found(free=free, refused=refused, locked=chosen.keys() - free.keys() - refused)
