"""What people look at: each question is one method, and each answer a view (`views/`)."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import attrs

from cronhare.domain.cron import find_zone
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.nodes import MOST_REPORTS
from cronhare.domain.schedules.skips import Circumstances
from cronhare.domain.topology import QUARANTINE_QUEUE, is_a_queue, topology
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.inspection import BrokerFacts, Kind, Thing
from cronhare.ports.records import ExecutionFilter, RecordsPort
from cronhare.ports.runner import NOTHING_REPORTED, TaskReport
from cronhare.ports.schedules import ScheduleStorePort

from ..views.executions import (
    AttemptView,
    ExecutionView,
    ExecutionWithAttempts,
    ExecutionWithOutput,
    OutputView,
)
from ..views.failures import FailureView, FailureWithDetails, QuarantineView
from ..views.schedules import DueView, ScheduleView
from ..views.work import NodesView, QueueView
from .lookup import NotFound, find_calendars, find_execution, find_schedule, understood, zone_of
from .output import FOLLOW_EVERY, Followed, follow, watch
from .schedules import CalendarView, ScheduleViews, preview

if TYPE_CHECKING:
    from cronhare.ports.inspection import BrokerInspectionPort

    from .lookup import Names


#: Seconds between two looks at a run that is waited for, and until it is reported as not begun.
LOOK_EVERY: Final = 0.2
SILENT_FOR: Final = 5.0


@attrs.frozen(kw_only=True)
class Queries:
    """Answers questions, and changes nothing.

    *now* is the ledger's clock, *retry_delay* that of the topology.
    """

    _schedules: ScheduleStorePort
    _records: RecordsPort
    _names: "Names"
    _nodes: NodeStorePort
    _broker: "BrokerInspectionPort"
    _retry_delay: timedelta
    _views: ScheduleViews
    _now: Callable[[], datetime]

    def now(self) -> datetime:
        return self._now()

    def schedule(self, name: str) -> ScheduleView:
        return self._views.of_one(find_schedule(self._schedules, name))

    def schedule_with_id(self, scheduler_id: int) -> ScheduleView:
        stored = self._schedules.with_id(scheduler_id)
        if stored is None:
            raise NotFound(f"there is no schedule with the id {scheduler_id}")
        return self._views.of_one(stored)

    def executions(self, which: ExecutionFilter) -> Sequence[ExecutionView]:
        found = self._records.executions(self._names.resolved(which))
        if not found:
            self._names.refuse_unknown(which)
        now, reports = self._now(), self._reports_of_running(found)
        return [
            ExecutionView.of(execution, now=now, report=reports.get(execution.id, NOTHING_REPORTED))
            for execution in self._names.named(found)
        ]

    def watch(
        self, which: ExecutionFilter, *, pause: Callable[[float], None]
    ) -> Iterator[Sequence[ExecutionView]]:
        """Yield executions, and again those that are new or have moved on: see `watch`.

        Of more than *limit* changes between two looks the oldest are left out.
        """
        return watch(lambda: self.executions(which), stand=_stand, pause=pause)

    def upcoming(self, name: str, *, count: int) -> Sequence[DueView]:
        """List the instants at which a schedule is due next, and why some will not run."""
        stored = find_schedule(self._schedules, name)
        schedule = understood(stored)
        if schedule is None or stored.problem is not None:
            return ()
        zone, now, found = find_zone(zone_of(stored)), self._now(), list[DueView]()
        calendars, has_run = find_calendars(self._schedules, stored), stored.claimed
        for due in preview(schedule, zone, after=now, count=count):
            around = Circumstances(pause=stored.pause, claimed=has_run, calendars=calendars)
            why = around.why_skipped(schedule, due.utc, now) if due.runs else None
            has_run += due.runs and why is None
            found.append(attrs.evolve(due, why_not=why))
        return found

    def execution(self, execution_id: int) -> ExecutionWithAttempts:
        [execution] = self._names.named([find_execution(self._records, execution_id)])
        attempts = self._records.attempts(execution_id)
        reports = {one.attempt: one.report for one in self._records.reported([execution_id])}
        of_last = reports.get(execution.attempt, NOTHING_REPORTED)
        return ExecutionWithAttempts(
            execution=ExecutionView.of(execution, now=self._now(), report=of_last),
            attempts=[
                AttemptView.of(attempt, reports.get(attempt.attempt, NOTHING_REPORTED))
                for attempt in attempts
            ],
        )

    def _reports_of_running(self, found: Sequence[Execution]) -> Mapping[int, TaskReport]:
        running = {one.id: one.attempt for one in found if one.state is State.RUNNING}
        if not running:
            return {}
        return {
            one.execution_id: one.report
            for one in self._records.reported(running.keys())
            if one.attempt == running[one.execution_id]
        }

    def output(self, execution_id: int) -> ExecutionWithOutput:
        [execution] = self._names.named([find_execution(self._records, execution_id)])
        running = execution.attempt if execution.state is State.RUNNING else None
        return ExecutionWithOutput(
            execution=ExecutionView.of(execution, now=self._now()),
            outputs=[
                OutputView.of(output, running=output.attempt == running)
                for output in self._records.output(execution_id)
            ],
        )

    def newest(self, name: str) -> int:
        """Find the run of a schedule that runs, waits, or ended last; it may not have run yet."""
        newest = self._newest(name)
        if newest is None:
            raise NotFound(f"schedule {name!r} has not run yet")
        return newest

    def newest_or_first(
        self,
        name: str,
        *,
        pause: Callable[[float], None],
        on_wait: Callable[[ScheduleView], None],
    ) -> int:
        """Find the newest run of a schedule, or look again and again until it has one.

        *on_wait* is called once, before the first *pause* of so many seconds.
        """
        is_told = False
        while (newest := self._newest(name)) is None:
            if not is_told:
                on_wait(self.schedule(name))
                is_told = True
            pause(FOLLOW_EVERY)
        return newest

    def _newest(self, name: str) -> int | None:
        stored = find_schedule(self._schedules, name)
        last = self._records.last_runs([stored.id]).get(stored.id)
        return None if last is None else last.id

    def follow(self, execution_id: int, *, pause: Callable[[float], None]) -> Iterator[Followed]:
        return follow(self._records, execution_id, pause=pause)

    def wait_for_end(
        self,
        execution_id: int,
        *,
        pause: Callable[[float], None],
        on_silence: Callable[[ExecutionView], None],
    ) -> ExecutionWithAttempts:
        """Look again and again until an execution has ended; *pause* waits for so many seconds.

        *on_silence* is called once, if it has not begun after `SILENT_FOR` seconds.
        """
        looks = 0
        while (execution := find_execution(self._records, execution_id)).state in UNFINISHED:
            has_begun = execution.state not in {State.CLAIMED, State.PUBLISHED}
            if looks == round(SILENT_FOR / LOOK_EVERY) and not has_begun:
                on_silence(ExecutionView.of(execution, now=self._now()))
            looks += 1
            pause(LOOK_EVERY)
        return self.execution(execution_id)

    def failures(
        self, which: FailureFilter, *, before: int | None = None, limit: int
    ) -> Sequence[FailureView]:
        """List the archive, newest first; those *before* a row of it, if it is given."""
        found = self._records.archive(self._names.resolved(which), before=before, limit=limit)
        if not found:
            self._names.refuse_unknown(which)
        names = {archived.schedule_name for archived in found}
        stored = {one.id: one for one in (self._schedules.schedules(names) if names else ())}
        for renamed in {archived.scheduler_id for archived in found} - stored.keys():
            if (one := self._schedules.with_id(renamed)) is not None:
                stored[one.id] = one
        return [
            FailureView.of(one, stored.get(one.scheduler_id))
            for one in self._names.named_failures(found)
        ]

    def watch_failures(
        self, which: FailureFilter, *, limit: int, pause: Callable[[float], None]
    ) -> Iterator[Sequence[FailureView]]:
        """Yield failures, and again those that are new or were resolved: see `watch`.

        Of more than *limit* between two looks the oldest are left out.
        """
        oldest = 0

        def look() -> Sequence[FailureView]:
            nonlocal oldest
            found = self.failures(which, limit=limit)
            if len(found) == limit:
                # An older one that takes the place of one that was resolved is no news.
                oldest = max(oldest, found[-1].id)
            return [one for one in found if one.id >= oldest]

        return watch(look, stand=lambda one: one.resolution, pause=pause)

    def failure(self, archived_id: int) -> FailureWithDetails:
        for archived in self._names.named_failures(self._records.archived([archived_id])):
            execution_id, last = archived.execution_id, archived.attempts
            outputs = self._records.output(execution_id)
            stored = self._schedules.with_id(archived.scheduler_id)
            return FailureWithDetails(
                failure=FailureView.of(archived, stored),
                schedule=None if stored is None else self._views.of_one(stored),
                attempts=list(map(AttemptView.of, self._records.attempts(execution_id))),
                last_output=next(
                    (OutputView.of(one, running=False) for one in outputs if one.attempt == last),
                    None,
                ),
            )
        raise NotFound(f"the archive has no row {archived_id}")

    def quarantine(
        self, which: FailureFilter, *, before: int | None = None, limit: int
    ) -> QuarantineView:
        """List what is quarantined, newest first, and count the messages of its queue."""
        thing = self._things([]).get(QUARANTINE_QUEUE)
        return QuarantineView(
            quarantined=self.failures(
                attrs.evolve(which, kind=State.QUARANTINED), before=before, limit=limit
            ),
            queue=QUARANTINE_QUEUE,
            messages=None if thing is None else thing.messages,
        )

    def calendars(self) -> Sequence[CalendarView]:
        return [*map(CalendarView.of, self._schedules.calendars())]

    def calendar(self, name: str) -> CalendarView:
        for stored in self._schedules.calendars([name]):
            return CalendarView.of(stored)
        raise NotFound(f"there is no calendar {name!r}")

    def queues(self) -> Sequence[QueueView]:
        loads = self._records.queues()
        named = self._schedules.on_queues()
        queues = sorted({*named, *(load.queue for load in loads)})
        things = self._things(queues)
        return [
            QueueView.of(queue, schedules=named.get(queue, 0), loads=loads, thing=things.get(queue))
            for queue in queues
        ]

    def nodes(self) -> NodesView:
        now = self._now()
        found = NodesView.of(self._nodes.nodes(now=now, limit=MOST_REPORTS), now=now)
        if not any(node.silent for node in found.nodes):
            return found
        running = ExecutionFilter(states={State.RUNNING}, limit=MOST_REPORTS)
        return found.with_runs(self._records.executions(running))

    def _things(self, queues: Collection[str]) -> Mapping[str, Thing]:
        usable = [queue for queue in queues if is_a_queue(queue)]
        wanted = topology(retry_delay=self._retry_delay, queues=usable)
        facts = self._broker.inspect(wanted)
        if not isinstance(facts, BrokerFacts):
            return {}
        return {thing.name: thing for thing in facts.things if thing.kind is Kind.QUEUE}


def _stand(execution: ExecutionView) -> tuple[object, ...]:
    """How an execution stands for whoever watches it: a renewed lease is no news."""
    return (
        execution.state,
        execution.attempt,
        execution.cancel_requested,
        execution.last_error,
        execution.progress,
        execution.progress_text,
    )
