"""What is called by a name or number: it is found, and refused where nobody knows it."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
from msgspec.structs import replace

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.nodes import MOST_REPORTS
from cronhare.domain.schedules.catalog import ref_of_topic
from cronhare.domain.schedules.conditions import BrokenCalendar, FoundCalendar, compiled
from cronhare.domain.schedules.draft import ScheduleDraft, ScheduleInvalid, compile_schedule
from cronhare.domain.schedules.schedule import SYSTEM_PREFIX, Schedule
from cronhare.domain.schedules.task import Task, TaskRef, TaskType
from cronhare.domain.texts.words import listed
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.records import ExecutionFilter, RecordsPort
from cronhare.ports.schedules import NamesPort, ScheduleStorePort, StoredSchedule

if TYPE_CHECKING:
    # Here: who lists executions may ask for no failure.
    from cronhare.domain.lifecycle.archive import Archived

    from ..views.schedules import ScheduleView

#: Names among which those that come close are looked for: it takes a tenth of a second.
LOOKED_AT: Final = 2_000


class NotFound(LookupError):
    """What was asked for by name or number does not exist, and nothing is left of it.

    Nothing was changed. Of a name it says which others come close.
    """


def find_schedule(schedules: ScheduleStorePort, name: str) -> StoredSchedule:
    [found] = find_schedules(schedules, [name])
    return found


def find_schedules(schedules: ScheduleStorePort, names: Sequence[str]) -> Sequence[StoredSchedule]:
    """Find schedules by their names, each once and in that order."""
    wanted = list(dict.fromkeys(names))
    found = {schedule.name: schedule for schedule in schedules.schedules(wanted)}
    for name in wanted:
        if name not in found:
            raise not_found("schedule", name, schedules.near(name, limit=LOOKED_AT))
    return [found[name] for name in wanted]


def not_found(what: str, name: str, known: Iterable[str]) -> NotFound:
    """Say that there is nothing of that name, and which of the *known* names come close."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there is {listed(names) or 'none'}"
    return NotFound(f"there is no {what} {name!r}; {hint}")


def find_execution(records: RecordsPort, execution_id: int) -> Execution:
    execution = records.execution(execution_id)
    if execution is None:
        raise NotFound(f"there is no execution {execution_id}")
    return execution


def understood(stored: StoredSchedule) -> Schedule | None:
    """Give the schedule that a row describes; None if it is broken."""
    if stored.draft is None:
        return None
    return compile_schedule(
        stored.draft, id=stored.id, changed_at=stored.updated_at, source=stored.source
    )


def zone_of(stored: StoredSchedule) -> str:
    """Name the zone in which a schedule is due; UTC if its row is broken."""
    return "UTC" if stored.draft is None else stored.draft.timezone


def find_calendars(
    schedules: ScheduleStorePort, stored: StoredSchedule
) -> Mapping[str, FoundCalendar]:
    if stored.draft is None or stored.draft.conditions is None:
        return {}
    names = stored.draft.conditions.calendars
    found = schedules.calendars(names) if names else ()
    return {
        each.name: compiled(each.draft)
        if each.draft
        else BrokenCalendar(each.name, each.problem or "")
        for each in found
    }


def refuse_unknown_calendars(schedules: ScheduleStorePort, draft: ScheduleDraft) -> None:
    if draft.conditions is None or not draft.conditions.calendars:
        return
    known = [each.name for each in schedules.calendars()]
    if faults := tuple(draft.conditions.faults_among(known)):
        raise ScheduleInvalid(faults)


Filter = TypeVar("Filter", ExecutionFilter, FailureFilter)

#: What has a task, whose name may be wanted.
Row = TypeVar("Row", Execution, "Archived", "ScheduleView")

#: A task may have a number in each jobs file, and each stands for a range that is read.
_MOST_NUMBERS: Final = 20


@attrs.define(kw_only=True, eq=False)
class Names:
    """Tasks are known by this process's jobs file, and by the ledger, whose clock *now* is."""

    _names: NamesPort
    _schedules: ScheduleStorePort
    _nodes: NodeStorePort
    _tasks: Iterable[Task]
    _now: Callable[[], datetime]

    def resolved(self, which: Filter) -> Filter:
        """Add the numbers of the task that is asked for by its name, or by a topic.

        A row that somebody has written, or made over HTTP, has a number alone.
        """
        if which.task is None or TaskRef.read(which.task) is not None:
            return which
        return attrs.evolve(which, numbers=self._numbers_of(which.task))

    def named(self, found: Sequence[Execution]) -> Sequence[Execution]:
        """Add the names of tasks where a run has a number alone, as this process's file has them.

        It is for people: whoever runs one finds its task by what the row says.
        """
        return self._filled(found, lambda one: one.task, replace)

    def named_failures(self, found: "Sequence[Archived]") -> "Sequence[Archived]":
        return self._filled(found, lambda one: TaskRef(one.task_type, one.task_id), attrs.evolve)

    def named_schedules(self, found: "Sequence[ScheduleView]") -> "Sequence[ScheduleView]":
        return self._filled(found, lambda one: one.task, attrs.evolve)

    def _filled(
        self,
        rows: Sequence[Row],
        ref_of: Callable[[Row], TaskRef | None],
        evolve: Callable[..., Row],
    ) -> Sequence[Row]:
        """Add names to rows without: a row of a jobs file has a task of that file, as for all."""
        nameless = [one.task_name is None and one.topic is None for one in rows]
        refs = [ref_of(one) if less else None for one, less in zip(rows, nameless, strict=True)]
        if all(ref is None or ref.is_system for ref in refs):
            return rows  # of what has its name nobody reads a jobs file
        tasks = {task.ref: task for task in self._tasks}

        def filled(row: Row, ref: TaskRef | None) -> Row:
            task = None if ref is None or ref.is_system else tasks.get(ref)
            if task is None or row.source not in {None, task.source or row.source}:
                return row
            return evolve(row, task_name=task.name)

        return [filled(row, ref) for row, ref in zip(rows, refs, strict=True)]

    def refuse_unknown(self, which: ExecutionFilter | FailureFilter) -> None:
        """Refuse a filter that takes nothing because it names what does not exist.

        It is asked once nothing was found. A task is known while anything is left of it.
        """
        expected = {
            "schedule": self.expect_schedule,
            "task": self._expect_task,
            "type": self._expect_type,
            "queue": self._expect_queue,
        }
        for field, expect in expected.items():
            if (asked := getattr(which, field, None)) is not None:
                expect(asked)

    def expect_schedule(self, asked: str | None) -> None:
        """Refuse a name that no schedule has; None asks for none, the system's own are there."""
        if asked is not None and not asked.startswith(SYSTEM_PREFIX):
            find_schedule(self._schedules, asked)

    def expect_source(self, asked: str) -> None:
        sources = self._names.sources()
        if asked not in sources:
            raise not_found("jobs file", asked, sources)

    def _numbers_of(self, name: str) -> tuple[TaskRef, ...]:
        registered = {task.ref for task in self._tasks if task.name == name}
        stored = self._names.numbers_of(name)
        found = {ref_of_topic(name), *registered, *stored}
        return tuple(sorted(found)[:_MOST_NUMBERS])

    def _expect_task(self, asked: str) -> None:
        tasks = [*self._tasks]
        if any(asked == task.name or TaskRef.read(asked) == task.ref for task in tasks):
            return
        numbers = () if TaskRef.read(asked) else self._numbers_of(asked)
        if not self._names.has_task(asked, numbers):
            there = self._names.tasks_near(asked, limit=LOOKED_AT)
            raise not_found("task", asked, {*there, *(task.name for task in tasks)})

    def _expect_type(self, asked: str) -> None:
        known = {*map(str, TaskType), *(task.ref.type for task in self._tasks)}
        if asked not in known and not self._names.has_type(asked):
            raise not_found("type of tasks", asked, known)

    def _expect_queue(self, queue: str) -> None:
        known = {*self._queues()}
        if queue not in known and not self._names.has_queue(queue):
            raise not_found("queue", queue, known)

    def _queues(self) -> Iterator[str]:
        yield MAIN_QUEUE
        yield from self._schedules.on_queues()
        for report in self._nodes.nodes(now=self._now(), limit=MOST_REPORTS).reports:
            yield from report.queues
