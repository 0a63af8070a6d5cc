"""One step of a replay or a backfill: what has ended is seen, more is collected, some begin."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

import attrs
from sqlalchemy import Connection

from cronhare.domain.lifecycle.replay_order import Pacing
from cronhare.domain.lifecycle.replay_pace import (
    Halt,
    ItemState,
    Release,
    Replay,
    ReplayState,
    next_step,
)
from cronhare.ports.replays import Advance

from .replay_items import Begun, Collected, Found, choose, move, settle

#: So many more than may begin are chosen, look by look, while some turn out to be locked (ADR 15).
#: What is behind more locked ones waits for a later step.
SPARES: Final = (0, 100, 1_000)


class WorkList(Protocol):
    """What a step is about, within its transaction. Items are numbered."""

    def why_impossible(self) -> str:
        """Say why nothing of it can go on; empty if it can."""
        ...

    def collect(self, found: Replay) -> Collected:
        """Look for some more items, and write them."""
        ...

    def take(self, chosen: Mapping[int, int]) -> Found:
        """Lock items; *chosen* has their executions, where they have any. May be repeated."""
        ...

    def begin(self, seen: Replay, found: Found, begins: Sequence[datetime]) -> Begun:
        """Claim the first items that are free, each at its moment."""
        ...


@attrs.define
class Tried:
    """With what a step was begun: a replay, and the first of its items, once one was to begin."""

    replay_id: int | None = None
    item: int | None = None


@attrs.frozen
class RefusedItem:
    """An item that the database refused when it was to begin alone, and *why*."""

    item: int
    why: str


@attrs.frozen(kw_only=True)
class ReplayStep:
    """A step in a transaction that has the replay's row; *tried* learns with which item it began.

    At most *most* begin. If the database has *refused* one, nothing begins, and that one is left
    out, if it still waits and nobody has it locked.
    """

    connection: Connection
    order: Pacing
    work: WorkList
    now: datetime
    random_fraction: Callable[[], float]
    tried: Tried
    most: int | None = None
    refused: RefusedItem | None = None

    def take(self, found: Replay) -> Advance:
        """Take the step; the replay is still to be written."""
        if why := self.work.why_impossible():
            return self._halted(found, Halt(ReplayState.STOPPED, why))
        seen = self._seen(found)
        step = next_step(
            self.order,
            seen.progress,
            next_at=seen.next_at,
            now=self.now,
            random_fraction=self.random_fraction,
        )
        if isinstance(step, Halt):
            return self._halted(seen, step)
        return self._release(seen, step)

    def _halted(self, seen: Replay, halt: Halt) -> Advance:
        return Advance(
            replay=attrs.evolve(seen, state=halt.state, reason=halt.reason, ended_at=self.now)
        )

    def _seen(self, found: Replay) -> Replay:
        """Take note of what has ended, and of more that is to begin."""
        settled = settle(self.connection, found)
        more = Collected(up_to=found.collected_to)
        if not found.is_collected:
            more = self.work.collect(found)
        succeeded, failed = settled[ItemState.SUCCEEDED], settled[ItemState.FAILED]
        before = found.progress
        progress = attrs.evolve(
            before,
            waiting=before.waiting + more.new,
            released=before.released - succeeded - failed,
            failing=settled[ItemState.RELEASED],
            succeeded=before.succeeded + succeeded,
            failed=before.failed + failed,
            refused=before.refused + more.refused,
            left_out=before.left_out + more.left_out,
            is_collected=more.up_to >= found.up_to,
        )
        return attrs.evolve(found, progress=progress, collected_to=more.up_to)

    def _release(self, seen: Replay, step: Release) -> Advance:
        begins = step.begins[: self.most]
        found = self._find(seen, len(begins)) if begins else Found()
        begun = self._begin(seen, found, begins)
        move(self.connection, seen.id, begun.begun, ItemState.RELEASED)
        move(self.connection, seen.id, begun.refused, ItemState.REFUSED)
        before = seen.progress
        after = attrs.evolve(
            before,
            waiting=before.waiting - len(begun.begun) - len(begun.refused),
            released=before.released + len(begun.begun),
            refused=before.refused + len(begun.refused),
        )
        reason = step.waits_for
        if self.refused is not None and self.refused.item in found.free:
            reason = self.refused.why
        moved = len(begun.begun) + len(begun.refused)
        next_at = step.looks_again_at(moved, self.now)
        return Advance(
            replay=attrs.evolve(seen, next_at=next_at, reason=reason, progress=after),
            executions=tuple(begun.begun.values()),
        )

    def _begin(self, seen: Replay, found: Found, begins: Sequence[datetime]) -> Begun:
        if self.refused is None:
            self.tried.item = next(iter(found.free), None)
            return self.work.begin(seen, found, begins)
        return Begun(refused={*found.refused, *(found.free.keys() & {self.refused.item})})

    def _find(self, seen: Replay, most: int) -> Found:
        """Find so many that may begin, or some more, past those that somebody keeps locked."""
        found, locked = Found(), set[int]()
        for spare in SPARES:
            chosen = choose(self.connection, seen, self.order, most + spare, without=locked)
            found = self.work.take(chosen)
            if not found.locked or len(found.free) >= most:
                break
            locked.update(found.locked)
        return found
