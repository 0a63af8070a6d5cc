"""The in-memory ledger: the tables that its four adapters share, and the lock around them.

It keeps the promises of the ports, in memory alone: it ends with its process. Start at
`claims.py` to see them kept.
"""

from datetime import datetime, timedelta
from itertools import count
from threading import RLock

from cronhare.domain.draft import ScheduleDraft
from cronhare.domain.execution import Execution, State
from cronhare.domain.task import TaskRef
from cronhare.ports.clock import ClockPort
from cronhare.ports.records import Archived

from .history import History
from .timetable import ScheduleRow, Timetable

#: The system's own schedule: claimed like any other, so that one replica does it (C13).
CLEANUP = ScheduleDraft(
    name="cronhare-cleanup",
    task=TaskRef("system", 1),
    schedule="0 3 * * *",
    description="deletes history that is older than its retention",
)


class MemoryLedger:
    """The tables. An adapter holds the lock for the whole of a method: that is a transaction."""

    def __init__(self, clock: ClockPort) -> None:
        """Begin with nothing but the system's own schedule."""
        self.clock = clock
        self.lock = RLock()
        self.timetable = Timetable()
        self.history = History()
        self.archive: dict[int, Archived] = {}
        self._archive_ids = count(1)
        self.timetable.save(CLEANUP, source=None, now=clock.now(), system=True)

    def new_archive_id(self) -> int:
        """Give an id that no row of the archive has had."""
        return next(self._archive_ids)

    def claim(
        self,
        row: ScheduleRow,
        key: str,
        *,
        due: datetime,
        now: datetime,
        node: str,
        delay: timedelta = timedelta(0),
    ) -> Execution:
        """Describe the claim of a run, with what its schedule says now. Inserts nothing."""
        schedule = row.schedule
        return Execution(
            id=self.history.new_id(),
            scheduler_id=schedule.id,
            schedule_name=schedule.name,
            key=key,
            state=State.CLAIMED,
            task=schedule.task,
            params=schedule.params,
            queue=schedule.queue,
            attempt=1,
            deaths=0,
            version=1,
            due_at=due,
            executed_at=now,
            container_id=node,
            retry=schedule.retry,
            timeout=schedule.timeout,
            next_attempt_at=now + delay,
        )
