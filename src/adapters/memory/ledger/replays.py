"""Replays of many failures, in memory."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import count, islice
from operator import attrgetter

import attrs

from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle import replay as replaying
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.replay import Allowance, why_not_replayed
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import (
    Halt,
    ItemState,
    Replay,
    ReplayProgress,
    ReplayState,
    halted,
    next_step,
    resumed,
)
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.ports.replays import Advance

from .tables import MemoryLedger


@attrs.define(kw_only=True)
class _Item:
    archived_id: int
    execution_id: int
    key: str
    state: ItemState = ItemState.WAITING


class MemoryReplayStore:
    """Satisfies `ReplayStorePort`. What is ordered is collected at once."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._items: dict[int, list[_Item]] = {}
        self._ids = count(1)

    def order(self, order: ReplayOrder, *, now: datetime) -> Replay:
        """See `ReplayStorePort.order`."""
        with self._ledger.lock:
            last = max(self._ledger.archive, default=0)
            id_ = next(self._ids)
            known = self._ledger.replays
            self._items = {id_: items for id_, items in self._items.items() if id_ in known}
            self._items[id_] = [
                _Item(archived_id=row.id, execution_id=row.execution_id, key=order.key_of(row))
                for row in self._ledger.archive.values()
                if order.which.takes(row)
            ]
            return self._keep(Replay(id=id_, order=order, created_at=now, up_to=last, next_at=now))

    def replays(self, *, limit: int) -> Sequence[Replay]:
        """See `ReplayStorePort.replays`."""
        with self._ledger.lock:
            return [*islice(reversed(self._ledger.replays.values()), limit)]

    def replay(self, replay_id: int) -> Replay | None:
        """See `ReplayStorePort.replay`."""
        with self._ledger.lock:
            return self._ledger.replays.get(replay_id)

    def halt(self, replay_id: int, *, reason: str, now: datetime) -> Replay | None:
        """See `ReplayStorePort.halt`."""
        with self._ledger.lock:
            found = self._ledger.replays.get(replay_id)
            return None if found is None else self._keep(halted(found, reason, now=now))

    def resume(self, replay_id: int, *, now: datetime) -> Replay | None:
        """See `ReplayStorePort.resume`."""
        with self._ledger.lock:
            found = self._ledger.replays.get(replay_id)
            return None if found is None else self._keep(resumed(found, now=now))

    def advance(
        self, *, now: datetime, policy: RetryPolicy, random_fraction: Callable[[], float]
    ) -> Advance | None:
        """See `ReplayStorePort.advance`."""
        with self._ledger.lock:
            due = [
                each
                for each in self._ledger.replays.values()
                if each.state is ReplayState.ACTIVE and each.next_at <= now
            ]
            if not due:
                return None
            found = min(due, key=attrgetter("next_at", "id"))
            order = found.order
            assert order is not None, "no row of ours is broken"
            progress = self._progress(found)
            found = attrs.evolve(found, progress=progress, collected_to=found.up_to)
            step = next_step(
                order,
                progress,
                next_at=found.next_at,
                now=now,
                random_fraction=random_fraction,
            )
            if isinstance(step, Halt):
                ended = attrs.evolve(found, state=step.state, reason=step.reason, ended_at=now)
                return Advance(replay=self._keep(ended))
            allowance = Allowance(attempts=order.attempts, policy=policy)
            begun = [*self._begin(found, order, step.begins, allowance=allowance, now=now)]
            waiting = attrs.evolve(
                found,
                next_at=step.next_at,
                reason=step.waits_for,
                progress=self._progress(found),
            )
            return Advance(replay=self._keep(waiting), executions=begun)

    def _begin(
        self,
        found: Replay,
        order: ReplayOrder,
        begins: Sequence[datetime],
        *,
        allowance: Allowance,
        now: datetime,
    ) -> Iterator[Execution]:
        moments = iter(begins)
        for item in [*islice(self._with_room(found.id, order), len(begins))]:
            row = self._ledger.archive.get(item.archived_id)
            execution = self._ledger.executions.get(item.execution_id)
            if row is None or execution is None or not _may_begin(row, execution):
                item.state = ItemState.REFUSED
                continue
            item.state = ItemState.RELEASED
            note = f"replay {found.id}"
            self._ledger.archive[row.id] = attrs.evolve(
                row, resolution="replayed", resolved_at=now, note=note, check_at=None
            )
            after = replaying.replay(execution, begins=next(moments), allowance=allowance)
            yield self._ledger.executions.write(execution, after)

    def _with_room(self, replay_id: int, order: ReplayOrder) -> Iterator[_Item]:
        items = self._items[replay_id]
        under_way = Counter(item.key for item in items if item.state is ItemState.RELEASED)
        for item in items:
            if item.state is not ItemState.WAITING:
                continue
            under_way[item.key] += 1
            if order.key is None or under_way[item.key] <= order.at_once:
                yield item

    def _progress(self, found: Replay) -> ReplayProgress:
        failing = 0
        for item in self._items[found.id]:
            if item.state is ItemState.RELEASED:
                execution = self._ledger.executions.get(item.execution_id)
                if execution is not None and execution.state in UNFINISHED:
                    failing += execution.deaths > 0
                else:
                    item.state = _end_of(execution)
        counts = Counter(item.state for item in self._items[found.id])
        return ReplayProgress(
            **{state.value: counts[state] for state in ItemState},
            failing=failing,
            is_collected=True,
        )

    def _keep(self, replay: Replay) -> Replay:
        self._ledger.replays[replay.id] = replay
        return replay


def _may_begin(row: Archived, execution: Execution) -> bool:
    return row.resolution is None and why_not_replayed(execution) is None


def _end_of(execution: Execution | None) -> ItemState:
    well = execution is not None and execution.state in {State.SUCCEEDED, State.HANDED_OVER}
    return ItemState.SUCCEEDED if well else ItemState.FAILED


def forget_replays(ledger: MemoryLedger, before: datetime) -> None:
    """Delete what has ended before then. The caller holds the ledger's lock."""
    ledger.replays = {
        id_: one
        for id_, one in ledger.replays.items()
        if one.state is ReplayState.ACTIVE or (one.ended_at or one.created_at) >= before
    }
