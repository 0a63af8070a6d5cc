"""Claims in memory."""

import heapq
from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter

import attrs
import msgspec

from cronhare.domain.execution import STARTABLE, WAITING, Execution, State
from cronhare.domain.lifecycle import leap_waits
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.claims import claim_run, skip
from cronhare.domain.lifecycle.redelivery import Graces, doubted_until, expected_anew_at
from cronhare.domain.lifecycle.transitions import (
    cancel,
    expire,
    hand_over,
    has_expired,
    is_as_sent,
    may_hand_over,
    publish,
)
from cronhare.domain.messages.messages import AttemptRef
from cronhare.domain.schedules.calendars import compiled
from cronhare.domain.schedules.circumstances import Circumstances, counts_runs
from cronhare.domain.schedules.planning import (
    INSTANTS_AT_ONCE,
    Planned,
    Planner,
    Skip,
    cursor_after,
    plan_or_problem,
)
from cronhare.domain.schedules.schedule import OverlapPolicy
from cronhare.ports.claims import Batch, LetGo

from .schedule_table import ScheduleRow
from .tables import MemoryLedger

_BY_ID, _BY_CHECK = attrgetter("id"), attrgetter("check_at", "id")


class MemoryClaimStore:
    """Satisfies `ClaimStorePort`. Each public method is one transaction."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._executions = ledger.executions
        self._schedules = ledger.schedules

    def now(self) -> datetime:
        """See `ClaimStorePort.now`: the clock is the one that the ledger was given."""
        return self._ledger.clock.now()

    def claim_due(
        self,
        *,
        now: datetime,
        limit: int,
        node: str,
        planner: Planner,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Batch:
        with self._ledger.lock:
            rows = tuple(islice(self._schedules.due(until or now, since), limit))
            return self._plan(rows, limit, now=now, node=node, planner=planner)

    def plan_edited(
        self, *, now: datetime, since: datetime | None, limit: int, node: str, planner: Planner
    ) -> Batch:
        with self._ledger.lock:
            edited = [
                row
                for row in self._schedules.rows()
                if (since is None or row.updated_at > since) and self._schedules.is_edited(row)
            ]
            return self._plan(edited[:limit], limit, now=now, node=node, planner=planner)

    def plan_problems(
        self,
        *,
        now: datetime,
        since: datetime | None,
        after: int,
        limit: int,
        node: str,
        planner: Planner,
    ) -> tuple[Batch, int]:
        with self._ledger.lock:
            rows = (row for row in self._schedules.rows() if row.id > after)
            page = [row for row in rows if self._has_problem(row, since)][:limit]
            batch = self._plan(page, limit, now=now, node=node, planner=planner)
            return batch, page[batch.looked - 1].id if batch.looked else after

    def next_due(self, *, after: datetime | None = None) -> datetime | None:
        with self._ledger.lock:
            return self._schedules.next_due(after)

    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        with self._ledger.lock:
            for sent in executions:
                row = self._executions.get(sent.id)
                if row is not None and is_as_sent(sent, row.state, row.attempt):
                    self._executions.write(sent, publish(sent, now=now))

    def hand_over(self, executions: Sequence[Execution], *, now: datetime) -> None:
        with self._ledger.lock:
            for sent in executions:
                row = self._executions.get(sent.id)
                if row is not None and may_hand_over(sent, row.state, row.attempt):
                    self._executions.write(row, hand_over(row, now=now))

    def doubt(self, *, since: datetime, now: datetime, after: int, limit: int) -> int | None:
        with self._ledger.lock:
            sent = self._executions.in_states({State.PUBLISHED, State.RETRYING})
            page = heapq.nsmallest(limit, (row for row in sent if row.id > after), key=_BY_ID)
            for row in page:
                check_at = doubted_until(row, since=since, now=now)
                if check_at is not None:
                    self._look_again(row, check_at)
            return page[-1].id if len(page) == limit else None

    def overdue(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Execution]:
        with self._ledger.lock:
            late = (
                row
                for row in self._executions.in_states(STARTABLE)
                if row.check_at is not None and row.check_at + graces.of(row.state) <= now
            )
            found = heapq.nsmallest(limit, late, key=_BY_CHECK)
            for row in found:
                self._look_again(row, expected_anew_at(row, now, grace=graces.published))
            return tuple(found)

    def unfinished(self, *, after: int, limit: int) -> Sequence[Execution]:
        with self._ledger.lock:
            later = (row for row in self._executions.in_states(STARTABLE) if row.id > after)
            return tuple(heapq.nsmallest(limit, later, key=_BY_ID))

    def owners(self) -> Collection[str]:
        with self._ledger.lock:
            running = self._executions.in_states({State.RUNNING})
            return {execution.owner for execution in running if execution.owner is not None}

    def lapsed(self, *, now: datetime, limit: int) -> Sequence[Execution]:
        with self._ledger.lock:
            lost = (
                execution
                for execution in self._executions.in_states({State.RUNNING})
                if execution.lease_until is not None and execution.lease_until <= now
            )
            return tuple(heapq.nsmallest(limit, lost, key=_BY_ID))

    def run_by(self, nodes: Collection[str], *, limit: int) -> Sequence[Execution]:
        with self._ledger.lock:
            running = self._executions.in_states({State.RUNNING})
            theirs = (execution for execution in running if execution.owner in nodes)
            return tuple(heapq.nsmallest(limit, theirs, key=_BY_ID))

    def end_waiting(self, *, now: datetime, limit: int) -> Sequence[Execution]:
        with self._ledger.lock:
            waiting = self._executions.in_states(WAITING)
            over = (row for row in waiting if row.cancel_requested or has_expired(row, now=now))
            found = heapq.nsmallest(limit, over, key=_BY_ID)
            ended = [
                cancel(row, now=now) if row.cancel_requested else expire(row, now=now)
                for row in found
            ]
            return tuple(
                self._executions.write(row, after) for row, after in zip(found, ended, strict=True)
            )

    def regain(self, *, now: datetime, limit: int) -> int:
        """See `ClaimStorePort.regain`: nothing is edited by hand in memory."""
        with self._ledger.lock:
            waiting = self._executions.in_states(STARTABLE)
            judged = ((row, self._regained(row, now)) for row in waiting)
            found = [(row, after) for row, after in judged if after is not None][:limit]
            for row, after in found:
                self._executions.write(row, after)
            return len(found)

    def _regained(self, row: Execution, now: datetime) -> Execution | None:
        before = self._executions.attempts(row.id).get(row.attempt - 1)
        ended_at = None if before is None else before.finished_at
        return leap_waits.regain(row, ended_at=ended_at, now=now)

    def let_go(self, gates: Collection[str], *, now: datetime) -> LetGo:
        """See `ClaimStorePort.let_go`. No gate is ever busy here."""
        with self._ledger.lock:
            answers = [self._ledger.gates.let_go(gate, now) for gate in sorted(set(gates))]
        return LetGo(
            executions=tuple(one for each in answers for one in each.executions),
            cancelled=tuple(one for each in answers for one in each.cancelled),
        )

    def gates(self, *, after: str, limit: int) -> Sequence[str]:
        with self._ledger.lock:
            return [name for name in self._ledger.gates.names() if name > after][:limit]

    def mark_ends_published(self, ends: Collection[AttemptRef]) -> None:
        with self._ledger.lock:
            published = {(end.execution_id, end.attempt) for end in ends}
            for row in tuple(self._ledger.archive.values()):
                if (row.execution_id, row.attempts) in published:
                    self._ledger.archive[row.id] = attrs.evolve(row, check_at=None)

    def overdue_ends(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Archived]:
        with self._ledger.lock:
            late = (
                row
                for row in self._ledger.archive.values()
                if row.check_at is not None and row.check_at + graces.ended <= now
            )
            found = heapq.nsmallest(limit, late, key=_BY_CHECK)
            for row in found:
                self._ledger.archive[row.id] = attrs.evolve(row, check_at=now)
            return tuple(found)

    def _look_again(self, row: Execution, check_at: datetime) -> None:
        self._executions.write(row, msgspec.structs.replace(row, check_at=check_at))

    def _plan(
        self,
        rows: Sequence[ScheduleRow],
        limit: int,
        *,
        now: datetime,
        node: str,
        planner: Planner,
    ) -> Batch:
        looked = skipped = weight = 0
        wanted: list[Execution] = []
        problems: list[tuple[str, str]] = []
        for row in rows:
            if weight >= INSTANTS_AT_ONCE:
                break
            planned, known = self._planned(row), self._schedules.cursor_of(row).problem
            plan = plan_or_problem(planner, planned)
            self._schedules.set_plan(row, cursor_after(planned, plan, now))
            looked += 1
            weight += plan.weight
            wanted += [claim_run(row.schedule, run, now=now, node=node) for run in plan.runs]
            self._schedules.claimed[row.id] += len(plan.runs) * counts_runs(row.schedule)
            skipped += self._prolong(row, [one for one in plan.skips if one.prolongs], now)
            wanted += [
                skip(row.schedule, one, now=now, node=node)
                for one in plan.skips
                if not one.prolongs
            ]
            if plan.problem is not None and (planned.edited or plan.problem != known):
                problems.append((row.schedule.name, plan.problem))
        inserted = self._insert(self._ledger.gates.held_back(wanted))
        self._ledger.gates.place(inserted)
        return Batch(
            looked=looked,
            more=looked == limit or looked < len(rows),
            claimed=tuple(one for one in inserted if one.state is State.CLAIMED),
            held=sum(one.state is State.HELD for one in inserted),
            skipped=skipped + sum(one.missed for one in inserted),
            problems=tuple(problems),
            gates=tuple(dict.fromkeys(one.held_by for one in inserted if one.held_by)),
        )

    def _has_problem(self, row: ScheduleRow, since: datetime | None) -> bool:
        cursor = self._schedules.cursor_of(row)
        is_asked_for = since is None or (row.updated_at > since and cursor.next_due is None)
        return bool(cursor.problem) and is_asked_for

    def _planned(self, row: ScheduleRow) -> Planned:
        cursor = self._schedules.cursor_of(row)
        asked = row.schedule.overlap is not OverlapPolicy.ALLOW
        return Planned(
            schedule=row.schedule,
            next_due=cursor.next_due or cursor.resume_at,
            edited=self._schedules.is_edited(row),
            idle=cursor.idle,
            problem=cursor.problem,
            unfinished=self._executions.unfinished_of(row.id) if asked else None,
            circumstances=self._circumstances(row),
        )

    def _circumstances(self, row: ScheduleRow) -> Circumstances | None:
        pause = self._schedules.pauses.get(row.id)
        if pause is None and row.schedule.conditions is None:
            return None
        return Circumstances(
            pause=pause,
            calendars={
                name: compiled(stored.draft)
                for name, stored in self._schedules.calendars.items()
                if stored.draft is not None
            },
            claimed=self._schedules.claimed[row.id],
            newest_skip=self._executions.newest_skip(row.id),
        )

    def _prolong(self, row: ScheduleRow, skips: Sequence[Skip], now: datetime) -> int:
        for one in skips:
            assert one.prolongs is not None
            self._executions.prolong(row.id, one.prolongs, last=one.last, more=one.count, now=now)
        return sum(one.count for one in skips)

    def _insert(self, wanted: Sequence[Execution]) -> list[Execution]:
        inserted = map(self._executions.insert, wanted)
        return [execution for execution in inserted if execution is not None]
