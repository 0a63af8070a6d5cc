"""Finding what stays alive for a process that keeps all of its tasks' schedules running."""

import logging
from collections.abc import Callable
from typing import Final

import attrs

from cronhare.domain.schedules.catalog import Catalog
from cronhare.domain.schedules.standalone import standalone_queue
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.listing import listed
from cronhare.domain.topology import MOST_QUEUES
from cronhare.ports.schedules import ScheduleStorePort, StoredSchedule

from ..logs import say

log = logging.getLogger(__name__)

#: Seconds between two looks for rows that were not there, while none is kept running.
FIND_EVERY: Final = 2.0


@attrs.define(kw_only=True, eq=False)
class StandaloneFinder:
    """Takes over what its jobs file, a form, the API or a hand has made, and whose task is at hand.

    Who has all there is in one process has no worker of its own for it beside that. Those of
    another jobs file are left to whoever has that one's tasks.
    """

    _schedules: ScheduleStorePort
    _catalog: Catalog
    _serve: Callable[[str], object]
    _leave: Callable[[str], object]
    #: The names of what is kept running.
    kept: list[str] = attrs.field(init=False, factory=list[str])
    _told: frozenset[str] = attrs.field(init=False, default=frozenset())

    def look(self) -> None:
        """Look once; what is found is kept, once its queue is asked to be served.

        Raises:
            LedgerUnavailable: to be repeated.
        """
        strange = {*self._schedules.staying_alive()}.difference(self.kept)
        if not strange:
            return
        found = (each for each in self._schedules.schedules(strange) if self._stays_here(each))
        names = [stored.name for stored in found]
        room = max(MOST_QUEUES - len(self.kept), 0)
        for name in names[:room]:
            self._take(name)
        self._tell_of(frozenset(names[room:]))

    def is_ours(self, stored: StoredSchedule) -> bool:
        """Tell whether the task of a schedule is at hand, or its row says none."""
        draft = stored.draft
        if draft is None:
            return True
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

    def _take(self, name: str) -> None:
        self._serve(standalone_queue(name))
        self.kept.append(name)
        text = f"{name} stays alive, and is kept running here"
        say(log, logging.INFO, "standalone.found", text)

    def _tell_of(self, left: frozenset[str]) -> None:
        """Say once which are left out; as others are let go, these are taken."""
        if left - self._told:
            text = (
                f"{listed(sorted(left))}: not kept running here, as {MOST_QUEUES} are, which is "
                "the most: they begin as some of these are disabled"
            )
            say(log, logging.WARNING, "standalone.left-out", text)
        self._told = left
