"""What a filter names: a task is found by its numbers too, and what nobody knows is refused."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import attrs
from msgspec.structs import replace

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.nodes import MOST_REPORTS
from cronhare.domain.schedules.catalog import ref_of_topic
from cronhare.domain.schedules.schedule import SYSTEM_PREFIX
from cronhare.domain.schedules.task import Task, TaskRef, TaskType
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.records import ExecutionFilter
from cronhare.ports.schedules import NamesPort, ScheduleStorePort

from .reading.lookup import LOOKED_AT, find_schedule, not_found

if TYPE_CHECKING:
    # Here: who lists executions may ask for no failure.
    from cronhare.domain.lifecycle.archive import Archived

    from .views.schedules import ScheduleView

Filter = TypeVar("Filter", ExecutionFilter, FailureFilter)

#: The number of a task, and the jobs file that the row is of, if it is of one.
_Numbered: TypeAlias = tuple[TaskRef, str | None]

#: A task may have a number in each jobs file, and each stands for a range that is read.
_MOST_NUMBERS: Final = 20


@attrs.define(kw_only=True, eq=False)
class Names:
    """Tasks are known by this process's jobs file, and by the ledger; *now* is the ledger's clock.

    Each method may raise `LedgerUnavailable`.
    """

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
        names = self._names_of((one.task, one.source) for one in found if _is_nameless(one))
        return [
            replace(one, task_name=names.get((one.task, one.source))) if _is_nameless(one) else one
            for one in found
        ]

    def named_failures(self, found: "Sequence[Archived]") -> "Sequence[Archived]":
        """Add them to rows of the archive: see `named`."""
        asked = {
            one.id: (TaskRef(one.task_type, one.task_id), one.source)
            for one in found
            if _is_nameless(one)
        }
        names = self._names_of(asked.values())
        return [
            attrs.evolve(one, task_name=names.get(asked[one.id])) if one.id in asked else one
            for one in found
        ]

    def named_schedules(self, found: "Sequence[ScheduleView]") -> "Sequence[ScheduleView]":
        """Add them to schedules: see `named`."""
        asked = {
            one.id: (one.task, one.source)
            for one in found
            if one.task is not None and _is_nameless(one)
        }
        names = self._names_of(asked.values())
        return [
            attrs.evolve(one, task_name=names.get(asked[one.id])) if one.id in asked else one
            for one in found
        ]

    def refuse_unknown(self, which: ExecutionFilter | FailureFilter) -> None:
        """Refuse a filter that takes nothing because it names what does not exist.

        It is asked once nothing was found. A task is known while anything is left of it.

        Raises:
            NotFound: with the names that come close.
        """
        self.expect_schedule(which.schedule)
        if which.task is not None:
            self._expect_task(which.task)
        if isinstance(which, FailureFilter):
            if which.type is not None:
                self._expect_type(which.type)
            if which.queue is not None:
                self._expect_queue(which.queue)

    def expect_schedule(self, asked: str | None) -> None:
        """Refuse a name that no schedule has; None asks for none, and the system's own are there.

        Raises:
            NotFound: with the names that come close.
        """
        if asked is not None and not asked.startswith(SYSTEM_PREFIX):
            find_schedule(self._schedules, asked)

    def expect_source(self, asked: str) -> None:
        """Refuse the name of a jobs file of which there is no schedule.

        Raises:
            NotFound: with the names that come close.
        """
        sources = self._names.sources()
        if asked not in sources:
            raise not_found("jobs file", asked, sources)

    def _names_of(self, rows: Iterable[_Numbered]) -> Mapping[_Numbered, str]:
        """Name the tasks of numbers; one of a jobs file is a task of that file, as for workers."""
        asked = {(ref, source) for ref, source in rows if not ref.is_system}
        if not asked:  # of what has its name nobody reads a jobs file
            return {}
        tasks = {task.ref: task for task in self._tasks}
        return {
            (ref, source): task.name
            for ref, source in asked
            if (task := tasks.get(ref)) is not None and source in {None, task.source or source}
        }

    def _numbers_of(self, name: str) -> tuple[TaskRef, ...]:
        registered = {task.ref for task in self._tasks if task.name == name}
        stored = self._names.numbers_of(name)
        found = {ref_of_topic(name), *registered, *stored}
        return tuple(sorted(found)[:_MOST_NUMBERS])

    def _expect_task(self, asked: str) -> None:
        tasks = [*self._tasks]
        if any(task.ref.is_meant(asked, name=task.name) for task in tasks):
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


def _is_nameless(row: "Execution | Archived | ScheduleView") -> bool:
    return row.task_name is None and row.topic is None
