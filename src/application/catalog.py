"""The tasks that this worker may run: they come from its own files and from nowhere else."""

from collections.abc import Iterable, Iterator

from cronhare.domain.task import Task, TaskRef


class Catalog:
    """Finds a task by the type and id that schedules and messages carry."""

    def __init__(self, tasks: Iterable[Task] = ()) -> None:
        """Keep the tasks; two with one type and id are a fault of the caller."""
        self._tasks = {task.ref: task for task in tasks}

    def find(self, ref: TaskRef) -> Task | None:
        """Give the task, or None if there is no such task here."""
        return self._tasks.get(ref)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks.values())
