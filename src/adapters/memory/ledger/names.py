"""Names of tasks and queues in memory."""

from bisect import bisect
from collections.abc import Collection, Iterator

from cronhare.domain.execution import UNFINISHED
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef

from .tables import MemoryLedger


class MemoryNames:
    """Satisfies `NamesPort`."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def numbers_of(self, task: str) -> Collection[TaskRef]:
        with self._ledger.lock:
            return {draft.task for draft in self._drafts() if draft.task_name == task}

    def has_task(self, task: str, numbers: Collection[TaskRef]) -> bool:
        with self._ledger.lock:
            named = (
                *((draft.task_name, draft.task) for draft in self._drafts()),
                *((one.task_name, one.task) for one in self._ledger.executions.newest_first()),
                *(
                    (row.task_name, TaskRef(row.task_type, row.task_id))
                    for row in self._ledger.archive.values()
                ),
            )
            return any(ref.is_meant(task, name=name, numbers=numbers) for name, ref in named)

    def has_queue(self, queue: str) -> bool:
        with self._ledger.lock:
            return (
                any(draft.queue == queue for draft in self._drafts())
                or any(one.queue == queue for one in self._ledger.executions.in_states(UNFINISHED))
                or any(row.queue == queue for row in self._ledger.archive.values())
            )

    def has_type(self, type_: str) -> bool:
        with self._ledger.lock:
            return any(draft.task.type == type_ for draft in self._drafts()) or any(
                row.task_type == type_ for row in self._ledger.archive.values()
            )

    def sources(self) -> Collection[str]:
        with self._ledger.lock:
            return {row.source for row in self._ledger.schedules.rows() if row.source}

    def tasks_near(self, name: str, *, limit: int) -> Collection[str]:
        with self._ledger.lock:
            names = sorted({draft.task_name for draft in self._drafts() if draft.task_name})
            place, half = bisect(names, name), limit // 2
            return names[max(place - half, 0) : place + half]

    def _drafts(self) -> Iterator[ScheduleDraft]:
        for row in self._ledger.schedules.rows():
            if not row.draft.task.is_system:
                yield row.draft
