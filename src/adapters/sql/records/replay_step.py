"""One step of a replay: what has ended is seen, more is collected, some begin."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs
from sqlalchemy import Connection, bindparam, select

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.replay import Allowance, replay, why_not_replayed
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import Halt, ItemState, Release, Replay, next_step
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.ports.replays import Advance

from ..attempts.standing import locked_elsewhere
from ..dialect import Dialect
from ..mapping.execution_rows import BY_IDS, find_executions
from ..mapping.transition_columns import write_changes
from ..schema.tables import failed_tasks
from .archive import known_id, resolve
from .replay_items import choose, collect, move, settle

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


@attrs.frozen(kw_only=True)
class ReplayStep:
    """A step in a transaction that has the replay's row.

    At most *most* begin; if the database has *refused* the first of them, that one alone is left
    out.
    """

    connection: Connection
    dialect: Dialect
    order: ReplayOrder
    now: datetime
    policy: RetryPolicy
    random_fraction: Callable[[], float]
    most: int | None = None
    refused: str | None = None

    def take(self, found: Replay) -> Advance:
        """Take the step; the replay is still to be written."""
        seen = self._seen(found)
        step = next_step(
            self.order,
            seen.progress,
            next_at=seen.next_at,
            now=self.now,
            random_fraction=self.random_fraction,
        )
        if isinstance(step, Halt):
            return Advance(
                replay=attrs.evolve(seen, state=step.state, reason=step.reason, ended_at=self.now)
            )
        return self._release(seen, step)

    def _seen(self, found: Replay) -> Replay:
        """Take note of what has ended, and of more that is to begin."""
        settled = settle(self.connection, found)
        new, collected_to = 0, found.collected_to
        if not found.is_collected:
            new, collected_to = collect(self.connection, self.dialect, found, self.order)
        succeeded, failed = settled[ItemState.SUCCEEDED], settled[ItemState.FAILED]
        before = found.progress
        progress = attrs.evolve(
            before,
            waiting=before.waiting + new,
            released=before.released - succeeded - failed,
            failing=settled[ItemState.RELEASED],
            succeeded=before.succeeded + succeeded,
            failed=before.failed + failed,
            is_collected=collected_to >= found.up_to,
        )
        return attrs.evolve(found, progress=progress, collected_to=collected_to)

    def _release(self, seen: Replay, step: Release) -> Advance:
        begins = step.begins[: self.most]
        chosen = choose(self.connection, seen, self.order, len(begins)) if begins else {}
        replayed: dict[int, tuple[Execution, Execution]] = {}
        if self.refused is None:
            free, refused = _take(self.connection, chosen)
            replayed = self._begin(seen, free, begins)
        else:
            refused = frozenset(chosen)
        move(self.connection, seen.id, replayed, ItemState.RELEASED)
        move(self.connection, seen.id, refused, ItemState.REFUSED)
        before = seen.progress
        after = attrs.evolve(
            before,
            waiting=before.waiting - len(replayed) - len(refused),
            released=before.released + len(replayed),
            refused=before.refused + len(refused),
        )
        reason = self.refused or step.waits_for
        return Advance(
            replay=attrs.evolve(seen, next_at=step.next_at, reason=reason, progress=after),
            executions=tuple(execution for _, execution in replayed.values()),
        )

    def _begin(
        self, seen: Replay, free: Mapping[int, Execution], begins: Sequence[datetime]
    ) -> dict[int, tuple[Execution, Execution]]:
        allowance = Allowance(attempts=self.order.attempts, policy=self.policy)
        replayed = {
            archived_id: (before, replay(before, begins=begin, allowance=allowance))
            for begin, (archived_id, before) in zip(begins, free.items(), strict=False)
        }
        if replayed:
            write_changes(self.connection, self.dialect, replayed.values())
            resolve(self.connection, replayed, "replayed", self.now, f"replay {seen.id}")
        return replayed


def _take(
    connection: Connection, chosen: Mapping[int, int]
) -> tuple[Mapping[int, Execution], Collection[int]]:
    """Lock executions by their rows of the archive; answers those that cannot be replayed as well.

    Others are locked by somebody else, and wait.
    """
    if not chosen:
        return {}, ()
    rows = connection.execute(_RESOLUTIONS, {"ids": list(chosen)}).all()
    unresolved = [row.id for row in rows if row.resolution is None]
    refused = chosen.keys() - set(unresolved)
    unlocked = set(connection.scalars(_UNLOCKED_FAILURES, {"ids": unresolved or [0]}))
    wanted = {id_: chosen[id_] for id_ in sorted(unlocked)}
    found = find_executions(connection, _UNLOCKED, wanted.values())
    locked = locked_elsewhere(connection, {known_id(id_) for id_ in wanted.values()} - found.keys())
    free: dict[int, Execution] = {}
    taken: set[int] = set()
    for archived_id, execution_id in wanted.items():
        execution = found.get(execution_id)
        if execution is None:
            refused |= set() if execution_id in locked else {archived_id}
        elif execution_id in taken or why_not_replayed(execution) is not None:
            refused |= {archived_id}
        else:
            taken.add(execution_id)
            free[archived_id] = execution
    return free, refused
