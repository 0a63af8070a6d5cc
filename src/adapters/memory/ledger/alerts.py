"""Alerts in memory."""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from operator import attrgetter

import attrs

from cronhare.domain.cron.zones import find_zone
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.alert_list import AlertFilter, AlertPlace
from cronhare.domain.lifecycle.alerts import (
    CLEAR_AFTER,
    CLEARED_KEPT,
    LOOKS_BACK,
    MOST_COUNTED,
    NEWEST,
    Alert,
    RaisedAlert,
    Signs,
    counts_as_held,
    is_forgotten,
    is_over,
    is_superseded,
    may_begin,
)
from cronhare.domain.lifecycle.schedule_alerts import (
    USUAL_RUNS,
    RunSigns,
    ScheduleSigns,
    may_be_long,
)
from cronhare.domain.lifecycle.system_alerts import OVERDUE_AFTER, QueueSigns, SystemSigns
from cronhare.domain.schedules.keys import DUE
from cronhare.domain.schedules.standalone import is_standalone
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.alerts import AlertChanges

from .schedule_table import ScheduleRow
from .tables import MemoryLedger

#: When each run has begun to wait.
_Times = dict[int, datetime]


class MemoryAlertStore:
    """Satisfies `AlertStorePort`. Each public method is one transaction."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._rows = ledger.alerts

    def begin(
        self,
        *,
        now: datetime,
        every: timedelta,
        source: str | None = None,
        instead_of: datetime | None = None,
    ) -> bool:
        with self._ledger.lock:
            last = self._ledger.alerts_begun_at.get(source)
            ended = self._ledger.alerts_judged_of.get(source)
            if last is not None and not may_begin(last, ended, now, every, instead_of=instead_of):
                return False
            self._ledger.alerts_begun_at[source] = now
            return True

    def signs(self, *, now: datetime, retries: int) -> Signs:
        with self._ledger.lock:
            newest = list(islice(self._ledger.executions.newest_first(), NEWEST))
            runs = [
                run
                for run in newest
                if run.executed_at >= now - LOOKS_BACK
                and run.state is not State.SKIPPED
                and not run.task.is_system
            ]
            worst = [
                run
                for run in runs
                if run.deaths > retries
                and (run.finished_at is None or run.finished_at >= now - CLEAR_AFTER)
            ]
            rows = self._ledger.archive.values()
            return Signs(
                unresolved=min(sum(row.resolution is None for row in rows), MOST_COUNTED),
                runs=len(runs),
                retried=sum(run.deaths > 0 for run in runs),
                too_often=len(worst),
                worst=worst[0] if worst else None,
            )

    def system_signs(self, *, now: datetime, served: Collection[str]) -> SystemSigns:
        before = now - OVERDUE_AFTER
        with self._ledger.lock:
            schedules = self._ledger.schedules
            cursors = map(schedules.cursor_of, schedules.rows())
            due = [each.next_due for each in cursors if each.next_due and not each.problem]
            claimed, sent = defaultdict[str, _Times](dict), defaultdict[str, _Times](dict)
            for run in self._ledger.executions.in_states({State.CLAIMED}):
                if run.executed_at < before and (run.next_attempt_at or now) <= now:
                    claimed[run.queue][run.id] = run.executed_at
            for run in self._ledger.executions.in_states({State.PUBLISHED}):
                at = run.published_at
                if at is not None and at < before and run.queue not in served:
                    sent[run.queue][run.id] = at
        return SystemSigns(
            earliest_due=min((each for each in due if each < before), default=None),
            unsent={queue: _waiting(times) for queue, times in claimed.items()},
            unserved={queue: _waiting(times) for queue, times in sent.items()},
        )

    def schedule_signs(
        self, scheduler_ids: Collection[int], *, usual: Collection[int], now: datetime
    ) -> Sequence[ScheduleSigns]:
        with self._ledger.lock:
            rows = [row for row in self._ledger.schedules.rows() if row.id in scheduler_ids]
            return [self._signs(row, now, usual=row.id in usual) for row in rows]

    def of_no_file(
        self, refs: Collection[TaskRef], *, limit: int
    ) -> Mapping[int, tuple[str, TaskRef]]:
        with self._ledger.lock:
            drafts = [(row, row.draft) for row in self._ledger.schedules.rows()]
            return {
                row.id: (draft.name, draft.task)
                for row, draft in drafts[:limit]
                if row.source is None and draft.status and draft.task in refs
            }

    def _signs(self, row: ScheduleRow, now: datetime, *, usual: bool) -> ScheduleSigns:
        runs = [
            run
            for run in self._ledger.executions.in_states({*State} - {State.SKIPPED})
            if run.scheduler_id == row.id
            and run.key.startswith(DUE)
            and not is_standalone(run.queue)
        ]
        replayed = {each.execution_id for each in self._ledger.archive.values()}
        open_ = [run for run in runs if run.finished_at is None and run.id not in replayed]
        open_.sort(key=attrgetter("id"))
        ended = [run for run in runs if run.finished_at is not None]
        ended.sort(key=attrgetter("finished_at", "id"), reverse=True)
        durations = [
            run.finished_at - started_at
            for run in ended[1:]
            if run.state is State.SUCCEEDED
            and run.finished_at
            and (started_at := self._started_at(run))
        ]
        cursor = self._ledger.schedules.cursor_of(row)
        due = cursor.next_due
        running = self._first(open_, lambda run: run.state is State.RUNNING)
        last = self._first(ended, lambda _: True)
        matters = usual and (may_be_long(running, now) or may_be_long(last, now))
        return ScheduleSigns(
            scheduler_id=row.id,
            name=row.draft.name,
            zone=find_zone(row.draft.timezone or "UTC"),
            unclaimed=due if due is not None and due <= now and not cursor.problem else None,
            waiting=self._first(open_, lambda run: run.started_at is None and run.attempt == 1),
            unfinished=self._first(open_, lambda _: True),
            running=running,
            last=last,
            usual=durations[:USUAL_RUNS] if matters else (),
        )

    def _first(
        self, runs: Sequence[Execution], wanted: Callable[[Execution], bool]
    ) -> RunSigns | None:
        run = next(filter(wanted, runs), None)
        if run is None:
            return None
        written = [
            output.stdout.bytes
            for output in self._ledger.executions.outputs(run.id)
            if output.attempt == run.attempt
        ]
        return RunSigns(
            id=run.id,
            due_at=run.due_at,
            started_at=self._started_at(run),
            finished_at=run.finished_at,
            has_succeeded=run.state is State.SUCCEEDED,
            output=sum(written),
        )

    def _started_at(self, run: Execution) -> datetime | None:
        attempt = self._ledger.executions.attempts(run.id).get(run.attempt)
        return None if attempt is None else attempt.started_at

    def keep(
        self,
        alerts: Collection[Alert],
        *,
        now: datetime,
        ended_at: datetime,
        source: str | None = None,
    ) -> AlertChanges:
        tables = self._ledger
        with tables.lock:
            began_at = tables.alerts_begun_at.get(source)
            if began_at is not None:
                if is_superseded(tables.alerts_judged_of.get(source, now), began_at, now):
                    return AlertChanges()
                if counts_as_held(tables.alerts_judged_at.get(source), began_at, now):
                    self._hold(source, now)
                tables.alerts_judged_of[source] = now
                tables.alerts_judged_at[source] = ended_at
            raised, cleared = list[RaisedAlert](), list[RaisedAlert]()
            for each in alerts:
                known = self._rows.get(each.key)
                if known is None or known.cleared_at is not None:
                    known = RaisedAlert.of(each, now)
                    raised.append(known)
                self._rows[each.key] = known.held(each, now)
            for key, row in [*self._rows.items()]:
                held_at = row.held_at or now
                ours = is_over(held_at, now) if row.source == source else False
                if row.cleared_at is None and (ours or held_at < now - CLEARED_KEPT):
                    cleared.append(attrs.evolve(row, cleared_at=now))
                    self._rows[key] = cleared[-1]
                elif is_forgotten(row, now):
                    del self._rows[key]
            return AlertChanges(raised=raised, cleared=cleared)

    def _hold(self, source: str | None, now: datetime) -> None:
        for key, row in [*self._rows.items()]:
            if row.source == source and row.cleared_at is None:
                self._rows[key] = attrs.evolve(row, held_at=now)

    def judged_at(self) -> datetime | None:
        with self._ledger.lock:
            return self._ledger.alerts_judged_at.get(None)

    def revision(self) -> Hashable:
        with self._ledger.lock:
            return tuple((row.key, row.raised_at, row.cleared_at) for row in self._rows.values())

    def page(
        self, which: AlertFilter, *, after: AlertPlace | None, limit: int | None
    ) -> tuple[Sequence[RaisedAlert], bool]:
        with self._ledger.lock:
            rows = sorted(filter(which.has, self._rows.values()), key=AlertPlace.of)
        rest = [row for row in rows if after is None or AlertPlace.of(row) > after]
        return rest[:limit], len(rest) > len(rest[:limit])

    def raised(self) -> Sequence[RaisedAlert]:
        with self._ledger.lock:
            rows = (self._rows[key] for key in sorted(self._rows))
            return [row for row in rows if row.cleared_at is None]

    def cleared(self) -> Sequence[RaisedAlert]:
        with self._ledger.lock:
            rows = (self._rows[key] for key in sorted(self._rows))
            return [row for row in rows if row.cleared_at is not None]


def _waiting(times: _Times) -> QueueSigns:
    return QueueSigns(runs=len(times), since=min(times.values()), execution=min(times))
