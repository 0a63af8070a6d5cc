"""Finding what stays alive for a process that keeps all of its tasks' schedules running."""

import logging
from collections.abc import Callable
from typing import Final

import attrs

from cronhare.domain.schedules.catalog import Catalog
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task
from cronhare.domain.topology import MOST_QUEUES
from cronhare.ports.schedules import ScheduleStorePort, StoredSchedule

from ..logs import say

log = logging.getLogger(__name__)

#: Seconds between two looks for rows that were not there.
FIND_EVERY: Final = 2.0


@attrs.define(kw_only=True, eq=False)
class StandaloneFinder:
    """Takes over what was made by form, API or hand, and whose task is at hand.

    Who has all there is in one process has no worker of its own for it beside that. Those of
    another jobs file are left to whoever has that one's tasks.
    """

    _schedules: ScheduleStorePort
    _catalog: Catalog
    _kept: list[str]
    _serve: Callable[[str], object]

    def round(self) -> float:
        """Look once; answers how many seconds to rest.

        What is *kept* grows by what is found, once its queue is asked to be served.

        Raises:
            LedgerUnavailable: to be repeated.
        """
        if strange := {*self._schedules.staying_alive()}.difference(self._kept):
            found = self._schedules.schedules(strange)
            for draft in (stored.draft for stored in found if self._is_ours(stored)):
                if draft is not None and len(self._kept) < MOST_QUEUES:
                    self._take(draft)
        return FIND_EVERY

    def _is_ours(self, stored: StoredSchedule) -> bool:
        draft = stored.draft
        if draft is None or not draft.stay_alive:
            return False
        found = self._catalog.find(draft.task, source=stored.source, topic=draft.topic)
        return isinstance(found, Task)

    def _take(self, draft: ScheduleDraft) -> None:
        self._serve(draft.runs_on)
        self._kept.append(draft.name)
        text = f"{draft.name} stays alive, and is kept running here"
        say(log, logging.INFO, "standalone.found", text)
