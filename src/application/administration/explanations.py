"""Why a schedule ran at an instant, or did not, and why a run is where it is."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final, Self

import attrs

from cronhare.application.starting import keeps_alive
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle.archive import FailureFilter, FailureFilterInvalid
from cronhare.domain.lifecycle.gates import ACTIVE, PLACED, key_of, schedule_of
from cronhare.domain.nodes import MOST_REPORTS, alive, served, serving
from cronhare.domain.schedules.catalog import say_unheard
from cronhare.domain.schedules.keys import is_standalone
from cronhare.domain.schedules.task import TaskType
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.words import called
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.claims import ReplayStorePort
from cronhare.ports.records import ExecutionFilter, RecordsPort
from cronhare.ports.schedules import ScheduleStorePort, StoredSchedule

from .changing.replays import on_request
from .changing.work import RetryLimitDesk
from .explain import Explanation, explain, explain_execution, has_times, newest_instant
from .names import Names
from .reading.lookup import NotFound, find_calendars, find_execution, find_schedule, zone_of
from .reading.schedules import what_it_came_of, who_begins_it
from .views.executions import AttemptView, ExecutionView

#: Runs that are named of those that another one waits for.
MOST_BEFORE: Final = 5

#: Replays, the newest, among which a backfill is looked for that is about to run an instant.
MOST_REPLAYS: Final = 100


@attrs.frozen(kw_only=True)
class ExplanationView:
    """Why a schedule ran at an instant, or did not; or why an execution is where it is.

    *answer* is the short one, *because* what it rests on, sentence by sentence.
    """

    schedule_name: str
    instant: datetime
    timezone: str
    ran: bool
    answer: str
    because: tuple[str, ...]
    execution: ExecutionView | None
    attempts: tuple[AttemptView, ...]

    @classmethod
    def of(
        cls, found: Explanation, *, name: str, timezone: str, instant: datetime, now: datetime
    ) -> Self:
        """Show an explanation of an instant of the schedule *name*, whose zone that is."""
        execution = found.execution
        return cls(
            schedule_name=name,
            instant=instant,
            timezone=timezone,
            ran=found.ran,
            answer=found.answer,
            because=found.because,
            execution=None if execution is None else ExecutionView.of(execution, now=now),
            attempts=tuple(map(AttemptView.of, found.attempts)),
        )


@attrs.frozen(kw_only=True)
class Explanations:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`.

    *now* is the ledger's clock.
    """

    _schedules: ScheduleStorePort
    _records: RecordsPort
    _nodes: NodeStorePort
    _replays: ReplayStorePort
    _limits: RetryLimitDesk
    _names: Names
    _now: Callable[[], datetime]

    def of_instant(self, name: str, instant: datetime | None) -> ExplanationView:
        """Explain what became of a schedule's instant; of the last at which it was due, if None.

        Raises:
            NotFound: there is no such schedule; it says what is left of one that was deleted.
        """
        try:
            stored, now = find_schedule(self._schedules, name), self._now()
        except NotFound as error:
            raise NotFound(f"{error}{self._left_of(name)}") from error
        if instant is None and not has_times(stored):
            return self._explain_without_times(stored, now)
        asked = newest_instant(stored, now=now) if instant is None else instant
        calendars = find_calendars(self._schedules, stored)
        replays = self._replays.replays(limit=MOST_REPLAYS)
        found = explain(
            stored, asked, records=self._records, now=now, calendars=calendars, replays=replays
        )
        zone, found = zone_of(stored), self._completed(found)
        return ExplanationView.of(found, name=name, timezone=zone, instant=asked, now=now)

    def _explain_without_times(self, stored: StoredSchedule, now: datetime) -> ExplanationView:
        """Explain the last run of a schedule that is never due, or why there is none."""
        nodes = self._nodes.nodes(now=now, limit=MOST_REPORTS)
        begins = who_begins_it(stored, nodes.reports, now=now)
        last = self._records.last_runs([stored.id]).get(stored.id)
        if last is None:
            found = Explanation(ran=False, answer="It has not run yet", because=tuple(begins))
        else:
            found = explain_execution(last, self._records.attempts(last.id), now=now)
            because = (what_it_came_of(last), *found.because)
            found = self._completed(attrs.evolve(found, because=because))
            if last.state not in UNFINISHED:  # or what it waits for is all that matters
                found = attrs.evolve(found, because=(*found.because, *begins))
        asked = now if last is None else last.due_at
        zone = zone_of(stored)
        return ExplanationView.of(found, name=stored.name, timezone=zone, instant=asked, now=now)

    def of_execution(self, execution_id: int) -> ExplanationView:
        """Explain why an execution is where it is.

        Raises:
            NotFound: there is none.
        """
        execution, now = find_execution(self._records, execution_id), self._now()
        attempts = self._records.attempts(execution_id)
        found = explain_execution(execution, attempts, now=now, asked=self._on_request(execution))
        found = self._completed(found)
        name, due = execution.schedule_name, execution.due_at
        zone = next(map(zone_of, self._schedules.schedules([name])), "UTC")
        return ExplanationView.of(found, name=name, timezone=zone, instant=due, now=now)

    def _on_request(self, execution: Execution) -> Iterator[str]:
        """Say what would run a skipped instant; read when it is asked for."""
        stored = self._schedules.with_id(execution.scheduler_id)
        if stored is not None:
            yield from on_request(
                stored,
                execution.due_at,
                said=execution.last_error or "",
                calendars=find_calendars(self._schedules, stored),
                replays=self._replays.replays(limit=MOST_REPLAYS),
            )

    def _completed(self, found: Explanation) -> Explanation:
        """Add what others know of the run: its limits, who could run it, its task's name."""
        if found.execution is None:
            return found
        one, found = found.execution, unless_unheard(found, self._records)
        more = (*self._before(one), *self._limits.about(one), *self._own_worker(one))
        [named] = self._names.named([one])
        return attrs.evolve(found, because=(*found.because, *more), execution=named)

    def _own_worker(self, execution: Execution) -> Iterator[str]:
        """Say whether the worker is there that alone serves a schedule with `stay_alive`."""
        if not is_standalone(execution.queue) or execution.state not in UNFINISHED:
            return
        now = self._now()
        nodes = alive(self._nodes.nodes(now=now, limit=MOST_REPORTS).reports, now)
        own = [node for node in nodes if node.runs_tasks and execution.queue in node.queues]
        if at_work := serving(own, now):
            yield f"The worker of its own is {at_work[0].name}."
        elif own:
            yield f"The worker of its own, {own[0].name}, is {own[0].state(now)}."
        else:
            keeper = keeps_alive(execution.schedule_name)
            yield f"No worker of its own is there, and no other runs it: {keeper}."

    def _before(self, execution: Execution) -> Iterator[str]:
        """Name the runs that one waits for which is held back, and whether they can begin."""
        gate = execution.held_by or "" if execution.state is State.HELD else ""
        if (key := key_of(gate)) is not None:
            yield from self._with_places(key)
        if schedule_of(gate) is not None:
            active = ExecutionFilter(
                schedule=execution.schedule_name, states=ACTIVE, limit=MOST_BEFORE
            )
            for other in self._records.executions(active):
                before = f"Execution {other.id} of the same schedule"
                yield f"{before} has not ended: it is {other.state}."

    def _with_places(self, key: str) -> Iterator[str]:
        """Name the runs that have the places of a key: one that nobody serves keeps its own."""
        now = self._now()
        nodes = alive(self._nodes.nodes(now=now, limit=MOST_REPORTS).reports, now)
        at_work = served(nodes, now)
        placed = ExecutionFilter(concurrency_key=key, states=PLACED, limit=MOST_BEFORE)
        for other in self._records.executions(placed):
            has = f"Execution {other.id} with key {key} is {other.state}"
            if other.state is State.RUNNING or other.queue in at_work:
                yield f"{has}."
            else:
                yield f"{has}, and no worker reports that it serves its queue, {other.queue}."

    def _left_of(self, name: str) -> str:
        """Say what the archive knows of a schedule that is gone."""
        try:
            which = FailureFilter(schedule=name, unresolved=False)
        except FailureFilterInvalid:  # no name that a schedule can have
            return ""
        for last in self._records.archive(which, limit=1):
            at = say_moment(last.failed_at)
            return f". One of that name was deleted or renamed: its last failure was at {at}"
        return ""


def unless_unheard(found: Explanation, records: RecordsPort) -> Explanation:
    """Correct the explanation of a success if it was an event, and nothing was run."""
    execution = found.execution
    if execution is None or execution.state is not State.SUCCEEDED or not found.attempts:
        return found
    is_event = execution.topic is not None or execution.task.type == TaskType.EVENT
    last, name = found.attempts[-1], called(execution.task, topic=execution.topic)
    if not is_event or last.pid is not None:
        return found
    outputs = records.output(execution.id, since=last.attempt)
    if all(output.stderr.head.rstrip() != say_unheard(name) for output in outputs):
        return found
    return attrs.evolve(
        found,
        ran=False,
        answer=f"It was completed without being run: nobody listened to {name}",
        because=(*found.because, '`no_listener = "fail"` of its schedule lets it fail instead.'),
    )
