"""Replays of many failures and backfills, in memory."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from itertools import count, islice
from operator import attrgetter
from uuid import UUID

import attrs

from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle import replay as replaying
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.backfill import (
    BackfillOrder,
    claim_past,
    instants,
    may_be_filled_up_to,
    moment_of_second,
    second_of,
    why_not_filled,
)
from cronhare.domain.lifecycle.replay import REPLAYED, Allowance, why_left_out
from cronhare.domain.lifecycle.replay_order import Pacing, ReplayOrder
from cronhare.domain.lifecycle.replay_pace import (
    WENT_WELL,
    Halt,
    ItemState,
    Replay,
    ReplayProgress,
    ReplayState,
    halted,
    is_due,
    next_step,
    resumed,
)
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.schedules.calendars import compiled
from cronhare.domain.schedules.circumstances import Circumstances
from cronhare.domain.schedules.keys import backfill_key, keys_of_instant
from cronhare.domain.schedules.schedule import Schedule
from cronhare.ports.replays import Advance

from .tables import MemoryLedger


@attrs.define(kw_only=True)
class _Item:
    """A failure by its row in the archive, or an instant by its second since 1970."""

    archived_id: int
    execution_id: int
    key: str
    state: ItemState = ItemState.WAITING


class MemoryReplayStore:
    """Satisfies `ReplayStorePort`. The failures of an order are collected at once."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._items: dict[int, list[_Item]] = {}
        self._left_out = Counter[int]()
        self._ids = count(1)
        self._requests: dict[UUID, int] = {}

    def order(
        self, order: ReplayOrder | BackfillOrder, *, now: datetime, request: UUID | None = None
    ) -> Replay:
        with self._ledger.lock:
            known = self._ledger.replays
            if request is not None and self._requests.get(request) in known:
                return known[self._requests[request]]
            id_ = next(self._ids)
            if request is not None:
                self._requests[request] = id_
            self._items = {id_: items for id_, items in self._items.items() if id_ in known}
            if isinstance(order, BackfillOrder):
                self._items[id_] = []
                first, last = order.span
                return self._keep(
                    Replay(
                        id=id_,
                        order=order,
                        created_at=now,
                        up_to=last,
                        collected_to=first - 1,
                        next_at=now,
                    )
                )
            last = max(self._ledger.archive, default=0)
            self._items[id_] = [
                _Item(archived_id=row.id, execution_id=row.execution_id, key=order.key_of(row))
                for row in self._ledger.archive.values()
                if order.which.takes(row)
            ]
            return self._keep(Replay(id=id_, order=order, created_at=now, up_to=last, next_at=now))

    def asked_by(self, request: UUID) -> Replay | None:
        with self._ledger.lock:
            return self._ledger.replays.get(self._requests.get(request, 0))

    def replays(self, *, limit: int, before: int | None = None) -> Sequence[Replay]:
        with self._ledger.lock:
            newest_first = reversed(self._ledger.replays.values())
            found = (one for one in newest_first if before is None or one.id < before)
            return [*islice(found, limit)]

    def replay(self, replay_id: int) -> Replay | None:
        with self._ledger.lock:
            return self._ledger.replays.get(replay_id)

    def halt(self, replay_id: int, *, reason: str, now: datetime) -> Replay | None:
        with self._ledger.lock:
            found = self._ledger.replays.get(replay_id)
            return None if found is None else self._keep(halted(found, reason, now=now))

    def resume(self, replay_id: int, *, now: datetime) -> Replay | None:
        with self._ledger.lock:
            found = self._ledger.replays.get(replay_id)
            return None if found is None else self._keep(resumed(found, now=now))

    def have_run(self, scheduler_id: int, due: Sequence[datetime]) -> Collection[datetime]:
        with self._ledger.lock:
            return {one for one in due if self._has_run(scheduler_id, one)}

    def advance(
        self,
        *,
        now: datetime,
        node: str,
        policy: RetryPolicy,
        random_fraction: Callable[[], float],
    ) -> Advance | None:
        with self._ledger.lock:
            due = [
                each
                for each in self._ledger.replays.values()
                if each.state is ReplayState.ACTIVE and is_due(each, now)
            ]
            if not due:
                return None
            found = min(due, key=attrgetter("next_at", "id"))
            order = found.order
            assert order is not None, "no row of ours is broken"
            collected_to = found.up_to
            if isinstance(order, BackfillOrder):
                if why := why_not_filled(*self._of(order)):
                    stopped = ReplayState.STOPPED
                    ended = attrs.evolve(found, state=stopped, reason=why, ended_at=now)
                    return Advance(replay=self._keep(ended))
                collected_to = self._collect(found, order, now)
            found = attrs.evolve(found, collected_to=collected_to)
            progress = self._progress(found)
            found = attrs.evolve(found, progress=progress)
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
            if isinstance(order, BackfillOrder):
                begun = [
                    *self._fill(found, order, step.begins, allowance=allowance, now=now, node=node)
                ]
            else:
                begun = [*self._begin(found, order, step.begins, allowance=allowance, now=now)]
            after = self._progress(found)
            waiting = attrs.evolve(
                found,
                next_at=step.looks_again_at(progress.waiting - after.waiting, now),
                reason=step.waits_for,
                progress=after,
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
                row, resolution=REPLAYED, resolved_at=now, note=note, check_at=None
            )
            after = replaying.replay(execution, begins=next(moments), allowance=allowance)
            yield self._ledger.executions.write(execution, after)

    def _of(self, order: BackfillOrder) -> tuple[Schedule | None, Circumstances]:
        row = self._ledger.schedules.row(order.scheduler_id)
        calendars = {
            name: compiled(stored.draft)
            for name, stored in self._ledger.schedules.calendars.items()
            if stored.draft is not None
        }
        return None if row is None else row.schedule, Circumstances(calendars=calendars)

    def _collect(self, found: Replay, order: BackfillOrder, now: datetime) -> int:
        row = self._ledger.schedules.row(order.scheduler_id)
        assert row is not None, "or it would be impossible"
        cursor = self._ledger.schedules.cursor_of(row)
        last = may_be_filled_up_to(
            found.up_to,
            is_planned=not self._ledger.schedules.is_edited(row),
            next_due=cursor.next_due or cursor.resume_at,
            now=now,
        )
        if last is None or last <= found.collected_to:
            return found.collected_to
        _, circumstances = self._of(order)
        due = instants(row.schedule, circumstances, first=found.collected_to + 1, last=last)
        for instant, why_not in due:
            if why_not is not None:
                self._left_out[found.id] += 1
            else:
                item = _Item(archived_id=second_of(instant), execution_id=0, key="")
                if self._has_run(row.id, instant):
                    item.state = ItemState.REFUSED
                self._items[found.id].append(item)
        return last

    def _has_run(self, scheduler_id: int, due: datetime) -> bool:
        keys = (*keys_of_instant(due), backfill_key(due))
        rows = (self._ledger.executions.with_key(scheduler_id, key) for key in keys)
        return any(row is not None and row.state is not State.SKIPPED for row in rows)

    def _fill(
        self,
        found: Replay,
        order: BackfillOrder,
        begins: Sequence[datetime],
        *,
        allowance: Allowance,
        now: datetime,
        node: str,
    ) -> Iterator[Execution]:
        schedule, _ = self._of(order)
        assert schedule is not None, "or it would be impossible"
        chosen = [*islice(self._with_room(found.id, order), len(begins))]
        for item, at in zip(chosen, begins, strict=False):
            due = moment_of_second(item.archived_id)
            claimed = claim_past(schedule, due, now=now, node=node, begins=at, allowance=allowance)
            inserted = self._ledger.executions.insert(claimed)
            if inserted is None:
                item.state = ItemState.REFUSED
                continue
            item.state, item.execution_id = ItemState.RELEASED, inserted.id
            yield inserted

    def _with_room(self, replay_id: int, order: Pacing) -> Iterator[_Item]:
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
            left_out=self._left_out[found.id],
            is_collected=found.is_collected,
        )

    def _keep(self, replay: Replay) -> Replay:
        self._ledger.replays[replay.id] = replay
        return replay


def _may_begin(row: Archived, execution: Execution) -> bool:
    return row.resolution is None and why_left_out(execution) is None


def _end_of(execution: Execution | None) -> ItemState:
    well = execution is not None and execution.state in WENT_WELL
    return ItemState.SUCCEEDED if well else ItemState.FAILED


def forget_replays(ledger: MemoryLedger, before: datetime) -> None:
    """Delete what has ended before then. The caller holds the ledger's lock."""
    ledger.replays = {
        id_: one
        for id_, one in ledger.replays.items()
        if one.state is ReplayState.ACTIVE or (one.ended_at or one.created_at) >= before
    }
