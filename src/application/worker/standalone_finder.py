"""Finding what stays alive for a process that keeps all of its tasks' schedules running."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import attrs

from cronhare.domain.execution import UNFINISHED
from cronhare.domain.schedules.catalog import Catalog
from cronhare.domain.schedules.edits import FULL_COMPARISON, LATE_COMMITS
from cronhare.domain.schedules.standalone import standalone_queue
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.listing import listed
from cronhare.domain.topology import MOST_QUEUES
from cronhare.ports.records import ExecutionFilter, RecordsPort
from cronhare.ports.schedules import ScheduleStorePort, StoredSchedule

from ..logs import say

log = logging.getLogger(__name__)

#: Seconds between two looks for rows that were not there, while none is kept running.
FIND_EVERY: Final = 2.0

#: So many runs are asked for at once.
_AT_ONCE: Final = 1_000


@attrs.define(kw_only=True, eq=False)
class StandaloneFinder:
    """Takes over what its jobs file, a form, the API or a hand has made, and whose task is at hand.

    Who has all there is in one process has no worker of its own for it beside that. Those of
    another jobs file are left to whoever has that one's tasks.

    What was begun to stay alive, and is to no more, is taken over as well, so that the run is ended
    before it is let go: nobody else would, if none of us was there when its row was edited.
    """

    _schedules: ScheduleStorePort
    _records: RecordsPort
    _catalog: Catalog
    _serve: Callable[[str], object]
    _leave: Callable[[str], object]
    _now: Callable[[], datetime]
    #: The names of what is kept running.
    kept: list[str] = attrs.field(init=False, factory=list[str])
    _left_out: frozenset[str] = attrs.field(init=False, default=frozenset())
    _tasks: tuple[Task, ...] = attrs.field(init=False, default=())
    _looked_at: datetime | None = attrs.field(init=False, default=None)
    _compared_at: datetime | None = attrs.field(init=False, default=None)

    def look(self) -> None:
        """Look once; what is found is kept, once its queue is asked to be served.

        What was edited of late is asked for, and all that there is now and then: see `Dispatcher`.

        Raises:
            LedgerUnavailable: to be repeated.
        """
        now, tasks = self._now(), tuple(self._catalog)
        since = None if self._is_to_compare(now, tasks) else self._looked_at
        asked = None if since is None else since - LATE_COMMITS
        alive = {*self._schedules.staying_alive(since=asked)}.difference(self.kept)
        begun = self._begun().difference(self.kept) if since is None else set[str]()
        strange = alive | begun
        found = self._schedules.schedules(strange) if strange else ()
        here = [each.name for each in found if self._stays_here(each)]
        anothers = [each.name for each in found if not self.is_ours(each)]
        self._take(here, ended=sorted(begun.difference(here, anothers)), are_all=since is None)
        self._looked_at, self._tasks = now, tasks
        if since is None:
            self._compared_at = now

    def _is_to_compare(self, now: datetime, tasks: tuple[Task, ...]) -> bool:
        """Tell whether to look at all that stays alive: what is strange may be ours by now."""
        if self._looked_at is None or self._compared_at is None or now < self._looked_at:
            return True
        has_room = bool(self._left_out) and len(self.kept) < MOST_QUEUES
        return has_room or tasks != self._tasks or now >= self._compared_at + FULL_COMPARISON

    def _begun(self) -> set[str]:
        """Name whatever has a run that was begun to stay alive, and has not ended."""
        names, before = set[str](), None
        while runs := self._records.executions(
            ExecutionFilter(states=UNFINISHED, stays_alive=True, before=before, limit=_AT_ONCE)
        ):
            names.update(run.schedule_name for run in runs)
            before = runs[-1].id
        return names

    def is_ours(self, stored: StoredSchedule) -> bool:
        """Tell whether the task of a schedule is at hand, or could be by a row that is broken."""
        draft = stored.draft
        if draft is None:
            return stored.source is None or stored.source in self._catalog.sources
        found = self._catalog.find(draft.task, source=stored.source, topic=draft.topic)
        return isinstance(found, Task)

    def let_go(self, name: str) -> None:
        """Keep it running no more, and leave its queue."""
        self.kept.remove(name)
        self._leave(standalone_queue(name))
        say(log, logging.INFO, "standalone.let-go", f"{name} is kept running here no more")

    def _stays_here(self, stored: StoredSchedule) -> bool:
        draft = stored.draft
        is_meant = draft is not None and draft.stay_alive and draft.status
        return is_meant and self.is_ours(stored)

    def _take(self, here: Sequence[str], *, ended: Sequence[str], are_all: bool) -> None:
        room = max(MOST_QUEUES - len(self.kept), 0)
        names = [*ended, *here]  # those have their places for moments
        for name in names[:room]:
            self._serve(standalone_queue(name))
            self.kept.append(name)
            text = f"{name} stays alive, and is kept running here"
            if name in ended:
                text = f"{name} has a run that was begun to stay alive, which is ended here"
            say(log, logging.INFO, "standalone.found", text)
        left = frozenset(names[room:])
        if left - self._left_out:
            text = (
                f"{listed(sorted(left))}: not kept running here, as {MOST_QUEUES} are, which is "
                "the most: they begin as some of these are disabled"
            )
            say(log, logging.WARNING, "standalone.left-out", text)
        self._left_out = left if are_all else self._left_out | left
