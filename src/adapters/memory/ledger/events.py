"""The outbox in memory."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.events import (
    EXPIRES_AFTER,
    MAY_BE_LATE,
    UNTOLD,
    Event,
    OutboxRow,
    OutboxState,
    Place,
    expected_after,
    without_repeats,
)
from cronhare.domain.lifecycle.pings import ENDS, LONGEST_TAIL, RunEnd
from cronhare.domain.lifecycle.replay import REPLAYED
from cronhare.domain.retries.leaps import was_ahead
from cronhare.domain.schedules.keys import BACKFILL, DUE
from cronhare.domain.schedules.standalone import is_standalone
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.events import Expired, Page

from .tables import MemoryLedger

_WAITING, _EXPECTED = OutboxState.WAITING.value, OutboxState.EXPECTED.value


class MemoryEventStore:
    """Satisfies `EventStorePort`. Each public method is one transaction."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._rows = ledger.outbox

    def bad_ends(
        self, *, source: str, refs: Collection[TaskRef], now: datetime, limit: int
    ) -> Sequence[Archived]:
        with self._ledger.lock:
            due = [row for row in self._ledger.archive.values() if _is_due(row, now)]
            ours = [
                row
                for row in due
                if row.source == source
                or (row.source is None and TaskRef(row.task_type, row.task_id) in refs)
            ]
            ours.sort(key=attrgetter("event_at", "id"))
            return ours[:limit]

    def announce(
        self,
        rows: Mapping[int, Sequence[OutboxRow]],
        *,
        now: datetime,
        until: datetime | None,
        once: Collection[str] = (),
    ) -> int:
        with self._ledger.lock:
            archive = self._ledger.archive
            taken = [id_ for id_ in sorted(rows) if id_ in archive and _is_due(archive[id_], now)]
            for id_ in taken:
                archive[id_] = attrs.evolve(archive[id_], event_at=until)
                self._add(without_repeats(rows[id_], once=once, known=self._known(once)))
            return len(taken)

    def add(self, rows: Sequence[OutboxRow]) -> int:
        with self._ledger.lock:
            return self._add(rows)

    def waiting(self, targets: Collection[str], *, source: str) -> Mapping[str, int]:
        with self._ledger.lock:
            ours = (row for row in self._rows.values() if row.source == source)
            return Counter(
                row.target for row in ours if row.state == _WAITING and row.target in targets
            )

    def due(self, targets: Collection[str], *, source: str, due_by: datetime) -> Collection[str]:
        with self._ledger.lock:
            return sorted({row.target for row in self._due(source, due_by)} & set(targets))

    def pending(
        self, target: str, *, source: str, due_by: datetime, most: int
    ) -> Mapping[str, int]:
        with self._ledger.lock:
            due = [row for row in self._due(source, due_by) if row.target == target]
            due.sort(key=attrgetter("next_try_at", "id"))
            return Counter(row.event for row in due[:most])

    def take(
        self,
        target: str,
        *,
        source: str,
        now: datetime,
        lease: timedelta,
        node: str,
        limit: int,
        kind: str | None = None,
        due_by: datetime | None = None,
    ) -> Sequence[OutboxRow]:
        with self._ledger.lock:
            due = [row for row in self._due(source, due_by or now) if row.target == target]
            due = [row for row in due if kind is None or row.event == kind]
            due.sort(key=attrgetter("next_try_at", "id"))
            return [
                self._write(row, owner=node, tries=row.tries + 1, next_try_at=now + lease)
                for row in due[:limit]
            ]

    def settle(
        self,
        row: OutboxRow,
        state: OutboxState,
        *,
        now: datetime,
        next_try_at: datetime | None = None,
        error: str | None = None,
    ) -> bool:
        with self._ledger.lock:
            stored = self._rows.get(row.id)
            mine = (_WAITING, row.owner, row.tries)
            if stored is None or (stored.state, stored.owner, stored.tries) != mine:
                return False
            is_over = state is not OutboxState.WAITING
            self._write(
                stored,
                state=state.value,
                next_try_at=None if is_over else next_try_at,
                finished_at=now if is_over else None,
                last_error=error,
            )
            return True

    def tell_anew(self, rows: Collection[OutboxRow], *, before: datetime, now: datetime) -> int:
        payloads = {(row.event_key, row.target): row.payload for row in rows}
        with self._ledger.lock:
            found = [
                row
                for row in self._rows.values()
                if row.state in UNTOLD
                and (row.event_key, row.target) in payloads
                and row.finished_at is not None
                and (row.finished_at < before or was_ahead(row.finished_at, now))
            ]
            for row in found:
                self._write(
                    row,
                    payload=payloads[row.event_key, row.target],
                    state=_WAITING,
                    tries=0,
                    occurred_at=now,
                    next_try_at=now,
                    finished_at=None,
                    owner=None,
                )
            return len(found)

    def expected(self, *, source: str, after: int, limit: int) -> Sequence[OutboxRow]:
        with self._ledger.lock:
            rows = (row for row in self._rows.values() if row.state == _EXPECTED)
            ours = (row for row in rows if row.source == source and row.id > after)
            return sorted(ours, key=attrgetter("id"))[:limit]

    def first_success(
        self, scheduler_id: int, *, after: datetime, by: datetime
    ) -> Execution | None:
        with self._ledger.lock:
            ended = [
                one
                for one in self._ledger.executions.in_states({State.SUCCEEDED})
                if one.scheduler_id == scheduler_id and after < (one.finished_at or after) <= by
            ]
            return min(ended, key=attrgetter("finished_at", "id"), default=None)

    def recover(self, expected: OutboxRow, event: Event, *, now: datetime) -> bool:
        with self._ledger.lock:
            row = self._rows.get(expected.id)
            if row is None or row.state != _EXPECTED or row.occurred_at != expected.occurred_at:
                return False
            if (event.id, row.target) in self._places():
                del self._rows[row.id]
                return False
            told = OutboxRow.of(event, row.target, source=row.source, now=now)
            self._rows[row.id] = attrs.evolve(told, id=row.id)
            return True

    def schedule_ids(self, names: Collection[str], *, source: str) -> Mapping[int, str]:
        with self._ledger.lock:
            rows = self._ledger.schedules.rows()
            ours = (row.schedule for row in rows if row.schedule.source == source)
            return {one.id: one.name for one in ours if one.name in names}

    def arrivals(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        with self._ledger.lock:
            found = [
                one
                for one in self._ledger.executions.in_states({*State} - {State.SKIPPED})
                if one.scheduler_id in scheduler_ids
                and one.executed_at >= since
                and one.key.startswith(DUE)
                and not is_standalone(one.queue)
            ]
            return _page(found, after, limit)

    def skips(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        with self._ledger.lock:
            found = [
                one
                for one in self._ledger.executions.in_states({State.SKIPPED})
                if one.scheduler_id in scheduler_ids and (one.finished_at or since) >= since
            ]
            return _page(found, after, limit)

    def begun_or_ended(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        with self._ledger.lock:
            found = [
                one
                for one in self._ledger.executions.in_states({State.RUNNING, *ENDS})
                if one.scheduler_id in scheduler_ids and (one.finished_at or since) >= since
            ]
            return _page(found, after, limit)

    def run_ends(self, execution_ids: Collection[int]) -> Mapping[int, RunEnd]:
        with self._ledger.lock:
            runs = map(self._ledger.executions.get, sorted(execution_ids))
            return {run.id: self._end(run) for run in runs if run is not None}

    def _end(self, run: Execution) -> RunEnd:
        attempt = self._ledger.executions.attempts(run.id).get(run.attempt)
        wrote = {
            name: text[-LONGEST_TAIL:]
            for output in self._ledger.executions.outputs(run.id)
            if output.attempt == run.attempt
            for name, stream in (("stderr", output.stderr), ("stdout", output.stdout))
            if (text := stream.tail or stream.head).strip()
        }
        code, node = (attempt.exit_code, attempt.node) if attempt else (None, None)
        return RunEnd(exit_code=code, node=node, **wrote)

    def begun_late(
        self,
        scheduler_ids: Collection[int],
        *,
        by: timedelta,
        now: datetime,
        since: datetime,
        after: int,
        limit: int,
    ) -> Page:
        with self._ledger.lock:
            archive = self._ledger.archive.values()
            replayed = {row.execution_id for row in archive if row.resolution == REPLAYED}
            found = [
                one
                for one in self._ledger.executions.in_states(MAY_BE_LATE)
                if one.scheduler_id in scheduler_ids
                and one.due_at < now - by
                and (one.finished_at is None or one.finished_at >= since)
                and one.id not in replayed
                and not one.key.startswith(BACKFILL)
            ]
            page = _page(found, after, limit)
            late = [one for one in page.found if (one.started_at or now) - one.due_at > by]
            return Page(found=late, next=page.next)

    def regain(self, *, farthest: datetime, now: datetime) -> int:
        with self._ledger.lock:
            archive = self._ledger.archive
            ends = [r for r in archive.values() if r.event_at and r.event_at > farthest]
            for end in ends:
                archive[end.id] = attrs.evolve(end, event_at=now)
            waiting = (row for row in self._rows.values() if row.state == _WAITING)
            rows = [row for row in waiting if row.next_try_at and row.next_try_at > farthest]
            for row in rows:
                self._write(row, next_try_at=now)
            hopes = (row for row in self._rows.values() if row.state == _EXPECTED)
            ahead = [row for row in hopes if row.occurred_at > now]
            for row in ahead:
                self._write(row, occurred_at=now)
            return len(ends) + len(rows) + len(ahead)

    def expire(
        self, *, before: datetime, kept_since: datetime, expected_since: datetime, now: datetime
    ) -> Expired:
        with self._ledger.lock:
            archive = self._ledger.archive
            untaken = [r for r in archive.values() if r.event_at and r.failed_at < before]
            for row in untaken:
                archive[row.id] = attrs.evolve(row, event_at=None)
            rows = list(self._rows.values())
            old = [
                row
                for row in rows
                if row.state == _WAITING
                and row.occurred_at < before
                and (row.owner is None or (row.next_try_at or now) <= now)
            ]
            for one in old:
                self._write(one, state=OutboxState.EXPIRED.value, finished_at=now, next_try_at=None)
            for one in rows:
                is_expected = one.state == OutboxState.EXPECTED.value
                since = expected_since if is_expected else kept_since
                if one.state != _WAITING and (one.finished_at or one.occurred_at) < since:
                    del self._rows[one.id]
            return Expired(failures=len(untaken), rows=len(old))

    def told(self, event_keys: Collection[str]) -> Mapping[str, Collection[str]]:
        found = dict[str, list[str]]()
        with self._ledger.lock:
            for row in self._rows.values():
                if row.event_key in event_keys and row.state == OutboxState.DELIVERED.value:
                    found.setdefault(row.event_key, []).append(row.target)
        return found

    def deliveries(self, beginnings: Collection[str]) -> Sequence[OutboxRow]:
        with self._ledger.lock:
            rows = self._rows.values()
            return [row for row in rows if row.event_key.startswith(tuple(beginnings))]

    def failing(self, target: str, *, source: str) -> OutboxRow | None:
        with self._ledger.lock:
            found = [
                row
                for row in self._rows.values()
                if (row.state, row.target, row.source) == (OutboxState.WAITING, target, source)
                and row.tries
                and row.last_error
                and row.next_try_at
            ]
        return max(found, key=attrgetter("next_try_at"), default=None)

    def rows(
        self, *, states: Collection[OutboxState] = (), schedule: str | None = None, limit: int
    ) -> Sequence[OutboxRow]:
        with self._ledger.lock:
            found = [
                row
                for row in self._rows.values()
                if (not states or row.state in states)
                and (schedule is None or row.schedule_name == schedule)
            ]
            return sorted(found, key=attrgetter("id"), reverse=True)[:limit]

    def _add(self, wanted: Sequence[OutboxRow]) -> int:
        added = 0
        for one in wanted:
            known = [
                row
                for row in self._rows.values()
                if one.state == row.state == _EXPECTED
                and (row.scheduler_id, row.target) == (one.scheduler_id, one.target)
            ]
            if known:
                if one.occurred_at >= known[0].occurred_at:
                    at, execution = one.occurred_at, one.execution_id
                    key = one.event_key
                    self._write(known[0], event_key=key, occurred_at=at, execution_id=execution)
            elif (one.event_key, one.target) not in self._places():
                id_ = next(self._ledger.outbox_ids)
                self._rows[id_] = attrs.evolve(one, id=id_)
                added += 1
        return added

    def _known(self, once: Collection[str]) -> Mapping[Place, str]:
        rows = self._rows.values()
        told = {(row.event_key, row.target) for row in rows if row.state not in UNTOLD}
        return {
            row.place: expected_after(row.event_key)
            for row in rows
            if row.state == _EXPECTED
            and row.target in once
            and (expected_after(row.event_key), row.target) in told
        }

    def _places(self) -> set[tuple[str, str]]:
        return {(row.event_key, row.target) for row in self._rows.values()}

    def _due(self, source: str, due_by: datetime) -> list[OutboxRow]:
        return [
            row
            for row in self._rows.values()
            if row.state == _WAITING
            and row.source == source
            and row.next_try_at is not None
            and row.next_try_at <= due_by
            and row.occurred_at >= due_by - EXPIRES_AFTER
        ]

    def _write(self, row: OutboxRow, **changes: Any) -> OutboxRow:  # noqa: ANN401 - its fields
        self._rows[row.id] = attrs.evolve(row, **changes)
        return self._rows[row.id]


def _page(found: Collection[Execution], after: int, limit: int) -> Page:
    ordered = sorted((one for one in found if one.id > after), key=attrgetter("id"))
    page = ordered[:limit]
    return Page(found=page, next=page[-1].id if len(page) == limit else None)


def _is_due(row: Archived, now: datetime) -> bool:
    return row.event_at is not None and row.event_at <= now
