"""Why a schedule ran at an instant, or did not."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.application.doctor.nodes import LOOK_FOR_HELD
from cronhare.application.starting import keeps_alive
from cronhare.domain.execution import REPLAYABLE, STARTABLE, UNFINISHED, Execution, State
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.lifecycle.claims import left_out, why_not_filled
from cronhare.domain.lifecycle.gates import ACTIVE, PLACED, key_of, schedule_of
from cronhare.domain.lifecycle.orders import BackfillOrder, Replay, ReplayState
from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.domain.nodes import CLOCKS_DIFFER, MOST_REPORTS, NodeReport, alive, served, serving
from cronhare.domain.reading import Invalid
from cronhare.domain.schedules.catalog import say_unheard
from cronhare.domain.schedules.draft import Disabled, hindrance
from cronhare.domain.schedules.keys import (
    LONGEST_AGO,
    Trigger,
    backfill_key,
    cron_key,
    every_key,
    is_standalone,
    once_key,
    trigger_of,
)
from cronhare.domain.schedules.schedule import ByHand, Every, Schedule
from cronhare.domain.schedules.skips import Circumstances, Pause, remedies
from cronhare.domain.schedules.task import TaskType
from cronhare.domain.texts.moments import iso_moment, say_duration, say_moment
from cronhare.domain.texts.words import called, listed
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.claims import ReplayStorePort
from cronhare.ports.inspection import LastClaim
from cronhare.ports.records import ExecutionFilter, RecordsPort, Retention
from cronhare.ports.runner import NOTHING_REPORTED
from cronhare.ports.schedules import ScheduleStorePort, StoredSchedule

from .changing.work import LimitDesk
from .reading.lookup import (
    Names,
    NotFound,
    find_calendars,
    find_execution,
    find_schedule,
    understood,
    zone_of,
)
from .story import Explanation, StoryView, explain_execution, story
from .views.executions import AttemptView, ExecutionView

#: Runs that are named of those that another one waits for.
MOST_BEFORE: Final = 5

#: So many runs of one minute are looked through.
_LOOKED_AT: Final = 200
_MINUTE: Final = timedelta(minutes=1)

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


@attrs.frozen(kw_only=True)
class Explanations:
    """Answers questions, and changes nothing.

    *now* is the ledger's clock.
    """

    _schedules: ScheduleStorePort
    _records: RecordsPort
    _nodes: NodeStorePort
    _replays: ReplayStorePort
    _limits: LimitDesk
    _policies: RetryPolicies
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
        if instant is None and stored.draft is not None and not stored.draft.has_times:
            last = self._records.last_runs([stored.id]).get(stored.id)
            found = self._without_times(stored, last, now)
            instant = now if last is None else last.due_at
        else:
            instant = newest_instant(stored, now=now) if instant is None else instant
            found = self.explain(stored, instant)
        return self._shown(found, name, zone_of(stored), instant, now)

    def _without_times(
        self, stored: StoredSchedule, last: Execution | None, now: datetime
    ) -> Explanation:
        nodes = self._nodes.nodes(now=now, limit=MOST_REPORTS).reports
        begins = tuple(who_begins_it(stored, nodes, now=now))
        if last is None:
            return Explanation(ran=False, answer="It has not run yet", because=begins)
        found = explain_execution(last, self._records.attempts(last.id), now=now)
        came = (
            f"{came_of(last)}, at {say_moment(last.due_at)}; it is the last run of this schedule."
        )
        more = () if last.state in UNFINISHED else begins  # what it waits for is all that matters
        return attrs.evolve(found, because=(came, *found.because, *more))

    def of_execution(self, execution_id: int) -> ExplanationView:
        """Explain why an execution is where it is."""
        execution, now = find_execution(self._records, execution_id), self._now()
        attempts = self._records.attempts(execution_id)
        stored, due = self._schedules.with_id(execution.scheduler_id), execution.due_at
        asked = () if stored is None else self._on_request(stored, due, _said(execution))
        found = explain_execution(execution, attempts, now=now, asked=asked)
        name = execution.schedule_name
        zone = next(map(zone_of, self._schedules.schedules([name])), "UTC")
        return self._shown(found, name, zone, due, now)

    def story_of(self, execution_id: int) -> StoryView:
        """Tell what happened to an execution, step by step; raises as `of_execution`."""
        execution, now = find_execution(self._records, execution_id), self._now()
        attempts = self._records.attempts(execution_id)
        reports = {one.attempt: one.report for one in self._records.reported([execution_id])}
        steps = story(
            execution,
            attempts,
            reports,
            policy=self._policies.of(execution),
            crash_policy=self._policies.crashes_of(execution),
            now=now,
        )
        [named] = self._names.named([execution])
        last = reports.get(execution.attempt, NOTHING_REPORTED)
        shown = ExecutionView.of(named, now=now, report=last)
        return StoryView(now=now, execution=shown, steps=[*steps])

    def failure_of(self, execution: ExecutionView) -> int | None:
        """Find the row of the archive by which an execution can be replayed."""
        if execution.state not in REPLAYABLE:
            return None
        found = self._records.archive(FailureFilter(execution_id=execution.id), limit=1)
        return found[0].id if found else None

    def _shown(
        self, found: Explanation, name: str, zone: str, instant: datetime, now: datetime
    ) -> ExplanationView:
        found = self._completed(found, now)
        execution = found.execution
        return ExplanationView(
            schedule_name=name,
            instant=instant,
            timezone=zone,
            ran=found.ran,
            answer=found.answer,
            because=found.because,
            execution=None if execution is None else ExecutionView.of(execution, now=now),
            attempts=tuple(map(AttemptView.of, found.attempts)),
        )

    def explain(self, stored: StoredSchedule, instant: datetime) -> Explanation:
        """Explain what became of the minute of *instant*; of an interval's second."""
        now, schedule = self._now(), understood(stored)
        execution, backfill = self._find(stored.id, instant), None
        due = instant if schedule is None else _instant_of(schedule, instant)
        if execution is None or execution.state is State.SKIPPED:
            backfill = self._find_backfill(stored.id, instant)
        is_found = execution is not None or backfill is not None
        beside = () if is_found else self._begun(stored.name, instant)
        begun = next((run for run in beside if run.due_at == instant), None)
        if (ran := backfill or execution or begun) is not None:
            asked = self._on_request(stored, due, _said(ran)) if ran is execution else ()
            found = explain_execution(ran, self._records.attempts(ran.id), now=now, asked=asked)
            if ran is not execution:
                why = f" It did not run at its time: {execution.last_error}." if execution else ""
                found = attrs.evolve(found, because=(f"{came_of(ran)}.{why}", *found.because))
        elif schedule is None:
            found = Explanation(
                ran=False,
                answer="It cannot be planned: its row in the table is broken",
                because=(stored.problem or "", "Mend the row; an edit is noticed within seconds."),
            )
        else:
            found = self._without_record(schedule, stored, due, now)
        if found.ran:
            return found
        told = (
            f"{came_of(run)}, at {say_moment(run.due_at)}: execution {run.id}, {run.state}."
            for run in (beside if found.execution is None else ())
        )
        return attrs.evolve(found, because=(*told, *found.because, *_planned_ahead(stored, now)))

    def _without_record(
        self, schedule: Schedule, stored: StoredSchedule, due: datetime, now: datetime
    ) -> Explanation:
        if schedule.timing.next(due - timedelta(microseconds=1)) != due:
            neighbours = tuple(_neighbours(schedule, due))
            return Explanation(ran=False, answer="It was not due then", because=neighbours)
        around = Circumstances(
            pause=stored.pause,
            claimed=stored.claimed,
            calendars=find_calendars(self._schedules, stored),
        )
        why = around.why_skipped(schedule, due, now)
        if due > now:
            return _future(schedule, stored, why)
        if (reason := _never(schedule, stored, due, why)) is not None:
            because = (*remedies(reason, stored.name), *self._on_request(stored, due, reason))
            return Explanation(ran=False, answer=f"It did not run: {reason}", because=because)
        if not stored.planned or (stored.next_due_at is not None and stored.next_due_at <= due):
            return _not_yet(due, self._records.last_claim())
        return Explanation(ran=False, answer=_forgotten(due, now))

    def _find(self, scheduler_id: int, instant: datetime) -> Execution | None:
        """Find the record of an instant; the schedule may have been edited since."""
        minute = instant.replace(second=0, microsecond=0)
        wanted = (
            (every_key(instant), instant),
            (cron_key(minute), minute),
            (once_key(minute), minute),
        )
        found = (self._records.covering(scheduler_id, key=key, instant=at) for key, at in wanted)
        return next(filter(None, found), None)

    def _find_backfill(self, scheduler_id: int, instant: datetime) -> Execution | None:
        for due in (instant, instant.replace(second=0, microsecond=0)):
            key = backfill_key(due)
            found = self._records.covering(scheduler_id, key=key, instant=due)
            if found is not None and found.key == key:
                return found
        return None

    def _begun(self, name: str, instant: datetime) -> Sequence[Execution]:
        """Find the runs that began in that minute, and not because the schedule was due."""
        minute = instant.replace(second=0, microsecond=0)
        # Such a run is claimed when it is asked for.
        in_minute = ExecutionFilter(
            schedule=name, since=minute, until=minute + _MINUTE, limit=_LOOKED_AT
        )
        by_itself = {Trigger.TIME, Trigger.BACKFILL}
        runs = self._records.executions(in_minute)
        return [run for run in runs if trigger_of(run.key) not in by_itself]

    def _on_request(self, stored: StoredSchedule, instant: datetime, said: str) -> Iterator[str]:
        """Say what would run a past instant that did not run, or that nothing would.

        *said* is why it did not run, as people are told already.
        """
        if (schedule := understood(stored)) is None:
            return
        circumstances = Circumstances(
            calendars=find_calendars(self._schedules, stored), problem=stored.problem
        )
        if why := why_not_filled(schedule, circumstances):
            if why not in said:
                yield f"No backfill runs it: {why}."
            return
        is_due, why_not = left_out(schedule, circumstances, instant)
        if why_not is not None:
            yield (
                f"A backfill leaves it out as well, as long as that holds ({why_not}); "
                f"`cronhare run {stored.name}` runs it now, whatever day it is."
            )
        elif is_due:
            known = self._backfill_with(stored.id, instant)
            if known is None:
                since, until = iso_moment(instant), iso_moment(instant + timedelta(seconds=1))
                asks = f"cronhare schedules backfill {stored.name} --since {since} --until {until}"
                yield f"`{asks}` runs it."
            elif known.state is ReplayState.STOPPED:
                resumed = f"`cronhare replays resume {known.id}`"
                yield f"Backfill {known.id} has it and is stopped: {resumed}."
            else:
                shown = f"`cronhare replays show {known.id}`"
                yield f"Backfill {known.id} is under way and has it: {shown}."

    def _backfill_with(self, scheduler_id: int, instant: datetime) -> Replay | None:
        states = (ReplayState.ACTIVE, ReplayState.STOPPED)
        with_it = [
            replay
            for replay in self._replays.replays(limit=MOST_REPLAYS)
            if isinstance(order := replay.order, BackfillOrder)
            and order.scheduler_id == scheduler_id
            and order.since <= instant < order.until
            and replay.state in states
        ]
        return min(with_it, key=lambda replay: states.index(replay.state), default=None)

    def _completed(self, found: Explanation, now: datetime) -> Explanation:
        """Add what others know of the run: its limits, who could run it, its task's name."""
        if found.execution is None:
            return found
        one, found = found.execution, self._unless_unheard(found.execution, found)
        more = (*self._before(one, now), *self._limits.about(one), *self._worker(one, now))
        [named] = self._names.named([one])
        return attrs.evolve(found, because=(*found.because, *more), execution=named)

    def _unless_unheard(self, execution: Execution, found: Explanation) -> Explanation:
        """Correct the explanation of a success if it was an event, and nothing was run."""
        if execution.state is not State.SUCCEEDED or not found.attempts:
            return found
        is_event = execution.topic is not None or execution.task.type == TaskType.EVENT
        last, name = found.attempts[-1], called(execution.task, topic=execution.topic)
        if not is_event or last.pid is not None:
            return found
        outputs = self._records.output(execution.id, since=last.attempt)
        if all(output.stderr.head.rstrip() != say_unheard(name) for output in outputs):
            return found
        fails = '`no_listener = "fail"` of its schedule lets it fail instead.'
        answer = f"It was completed without being run: nobody listened to {name}"
        return attrs.evolve(found, ran=False, answer=answer, because=(*found.because, fails))

    def _alive(self, now: datetime) -> Sequence[NodeReport]:
        return alive(self._nodes.nodes(now=now, limit=MOST_REPORTS).reports, now)

    def _worker(self, execution: Execution, now: datetime) -> Iterator[str]:
        """Say that nobody serves its queue; of its own queue also who does."""
        if execution.state not in UNFINISHED:
            return
        nodes, queue = self._alive(now), execution.queue
        if not is_standalone(queue):
            if execution.state in STARTABLE and queue not in served(nodes, now):
                yield f"No worker that is connected serves queue {queue}."
            return
        own = [node for node in nodes if node.runs_tasks and execution.queue in node.queues]
        if at_work := serving(own, now):
            yield f"The worker of its own is {at_work[0].name}."
        elif own:
            yield f"The worker of its own, {own[0].name}, is {own[0].state(now)}."
        else:
            keeper = keeps_alive(execution.schedule_name)
            yield f"No worker of its own is there, and no other runs it: {keeper}."

    def _before(self, execution: Execution, now: datetime) -> Iterator[str]:
        """Name the runs that one waits for which is held back, and whether they can begin.

        A run that nobody serves keeps its place.
        """
        gate = execution.held_by or "" if execution.state is State.HELD else ""
        if (key := key_of(gate)) is not None:
            at_work = served(self._alive(now), now)
            placed = ExecutionFilter(concurrency_key=key, states=PLACED, limit=MOST_BEFORE)
            for other in self._records.executions(placed):
                is_served = other.state is State.RUNNING or other.queue in at_work
                nobody = f", and no worker reports that it serves its queue, {other.queue}"
                has = f"Execution {other.id} with key {key} is {other.state}"
                yield f"{has}{'' if is_served else nobody}."
        if schedule_of(gate) is not None:
            name = execution.schedule_name
            for other in self._records.executions(
                ExecutionFilter(schedule=name, states=ACTIVE, limit=MOST_BEFORE)
            ):
                before = f"Execution {other.id} of the same schedule"
                yield f"{before} has not ended: it is {other.state}."

    def _left_of(self, name: str) -> str:
        try:
            which = FailureFilter(schedule=name, unresolved=False)
        except Invalid:  # no name that a schedule can have
            return ""
        for last in self._records.archive(which, limit=1):
            at = say_moment(last.failed_at)
            return f". One of that name was deleted or renamed: its last failure was at {at}"
        return ""


def _planned_ahead(stored: StoredSchedule, now: datetime) -> Iterator[str]:
    """Tell of a plan that was made while the ledger's clock was ahead, before it was set right."""
    schedule, planned = understood(stored), stored.next_due_at
    if schedule is None or planned is None or not stored.planned:
        return
    following = schedule.next(now + CLOCKS_DIFFER)
    if following is not None and planned > following:
        yield (
            "The ledger's clock was ahead, and its instants were decided on then: "
            f"nothing of it is due before {say_moment(planned)}."
        )
        yield (
            f"`cronhare schedules disable {stored.name}` and then `enable` plans it anew, "
            "as any edit does."
        )


def newest_instant(stored: StoredSchedule, *, now: datetime) -> datetime:
    """Give the last instant at which a schedule was due; *now* if there is none."""
    schedule = understood(stored)
    last = None if schedule is None else schedule.timing.previous(now + timedelta(microseconds=1))
    return now if last is None else last


def _instant_of(schedule: Schedule, moment: datetime) -> datetime:
    """Give the only instant at which it can be due in that minute; of an interval's second."""
    due = moment.replace(microsecond=0)
    return due if isinstance(schedule.timing, Every) else due.replace(second=0)


def _neighbours(schedule: Schedule, instant: datetime) -> Iterator[str]:
    if isinstance(schedule.timing, ByHand):
        starts = " or at a boot or start, as its jobs file says" if schedule.source else ""
        yield f"It has no times of its own: it runs when somebody asks{starts}."
        return
    before, after = schedule.timing.previous(instant), schedule.timing.next(instant)
    yield f"The instant before is {say_moment(before) if before else 'none'}."
    yield f"The instant after is {say_moment(after) if after else 'none'}."


def _future(schedule: Schedule, stored: StoredSchedule, why: str | None) -> Explanation:
    answer, because = "It is due then", tuple[str, ...]()
    if not schedule.enabled:
        said = "But the schedule is disabled: unless that changes, it will not run."
        because = (said, *remedies("the schedule is disabled", stored.name))
    elif stored.problem is not None:
        because = (f"But it cannot be planned: {stored.problem}.",)
    elif why is not None:
        answer = f"{answer}, and will not run unless that changes: {why}"
        because = tuple(remedies(why, stored.name))
    return Explanation(ran=False, answer=answer, because=because)


def _never(
    schedule: Schedule, stored: StoredSchedule, instant: datetime, why: str | None
) -> str | None:
    idle = stored.idle
    if not schedule.enabled and idle is not None and instant >= idle.since:
        return f"the schedule is disabled, and was when {say_moment(idle.since)} came"
    if instant <= schedule.changed_at:
        changed = say_moment(schedule.changed_at)
        return (
            f"by the schedule as it is now, which was created, edited or enabled at {changed}: an "
            "instant from before an edit is not run by itself"
        )
    if not schedule.enabled:
        return "the schedule is disabled"
    if schedule.starts_at is not None and instant < schedule.starts_at:
        return f"the schedule starts at {say_moment(schedule.starts_at)}"
    if schedule.ends_at is not None and instant > schedule.ends_at:
        return f"the schedule ended at {say_moment(schedule.ends_at)}"
    return why if stored.problem is None else f"it cannot be planned: {stored.problem}"


def _not_yet(instant: datetime, last: LastClaim | None) -> Explanation:
    """Distinguish a schedule that is held or refused from schedulers that are not there."""
    if last is None or last.at < instant:
        answer = "It did not run yet: no scheduler has claimed anything since"
        because = (
            "One claims within seconds, and within 15 s where the broker does not answer.",
            (
                "If not, `cronhare nodes list` shows whether one runs; its log says why it cannot: "
                "`schedule.held`, say, or a server is away."
            ),
        )
        return Explanation(ran=False, answer=answer, because=because)
    return Explanation(
        ran=False,
        answer=f"It did not run yet: schedulers claim others, and not this one (the last {last})",
        because=(
            "Its rows are held by another session, or refused, if it stays so.",
            f"{LOOK_FOR_HELD[0].upper()}{LOOK_FOR_HELD[1:]}.",
        ),
    )


def _forgotten(instant: datetime, now: datetime) -> str:
    if now - instant > Retention().completed:
        days = Retention().completed.days
        return f"The ledger has no record of it; records of runs are removed after {days} days"
    return "The ledger has no record of it, though it was due: its row must have been removed"


# Who, or what, begins it


_CAME_OF = {
    Trigger.HAND: "Somebody asked for it",
    Trigger.START: "It began with a start of `cronhare up`",
    Trigger.BOOT: "It is the run of a boot of a host",
    Trigger.ALIVE: "It was begun to stay alive",
    Trigger.TIME: "It was due then, before the schedule lost its times",
    Trigger.BACKFILL: "A backfill asked for it",
    Trigger.PROGRAM: "A program enqueued it",
}


def who_begins_it(
    stored: StoredSchedule, nodes: Sequence[NodeReport], *, now: datetime
) -> Iterator[str]:
    if stored.draft is not None and stored.draft.stay_alive:
        yield f"It stays alive. {keeps_alive(stored.name)} begins it whenever it has ended."
        yield f"Its runs go through {stored.draft.runs_on}, which no other worker serves."
        yield from _what_hinders(stored, now)
        return
    yield f"It has no times of its own: `cronhare run {stored.name}` begins it."
    if stored.source is None:
        return
    if stored.name.startswith(f"{stored.source}:"):
        yield "It is a task's own: whatever a program enqueues of that task is a run of it."
        yield from _what_hinders(stored, now)
        return
    yield (
        f"If its jobs file or app, {stored.source}, says on_start, so does each start of "
        "`cronhare up` with it, and no worker; on_boot: the first of its workers, or `cronhare "
        f"up`, within {say_duration(LONGEST_AGO)} of a boot. The ledger does not know which."
    )
    yield from _what_hinders(stored, now)
    at_work = [node.name for node in nodes if node.works and not node.is_silent(now)]
    if not at_work:
        yield "No worker and no `cronhare up` reports itself now: none would begin it at a boot."
    else:
        yield f"At work now: {listed(at_work)}. Each looks once, when it begins."
    yield "What began nothing says why in its log: `start.refused`, `boot.refused`, `boot.passed`."


def _what_hinders(stored: StoredSchedule, now: datetime) -> Iterator[str]:
    match stored.draft and hindrance(stored.draft, stored.pause, now=now):
        case Disabled():
            yield f"But it is disabled: `cronhare schedules enable {stored.name}` switches it on."
        case Pause() as pause:
            yield f"But it is {pause}: `cronhare schedules resume {stored.name}` ends that."


def _said(execution: Execution) -> str:
    return execution.last_error or ""


def came_of(execution: Execution) -> str:
    return _CAME_OF[trigger_of(execution.key)]
