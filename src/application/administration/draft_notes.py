"""What is noted of one schedule that is made or edited here: who is to run it may not be there."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import attrs

from cronhare.domain.nodes import MOST_REPORTS, served
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task
from cronhare.domain.schedules.unreached import (
    note_unheard,
    note_unserved,
    queue_of,
    topic_of,
    topics_of,
)
from cronhare.ports.nodes import NodeStorePort


@attrs.define(kw_only=True, eq=False)
class DraftNotes:
    """Knows the tasks of this process's jobs file, and the workers; *now* is the ledger's clock."""

    _nodes: NodeStorePort
    _tasks: Iterable[Task]
    _now: Callable[[], datetime]

    def of(self, draft: ScheduleDraft, *, before: ScheduleDraft | None = None) -> Sequence[str]:
        """Note the queue and the topic of a schedule of no file, if nobody here has them.

        After an edit they are noted where that brought others than *before*.

        Raises:
            LedgerUnavailable: it is not known who serves a queue.
        """
        found = list[str | None]()
        if (queue := queue_of(draft, before=before)) is not None:
            now = self._now()
            there = served(self._nodes.nodes(now=now, limit=MOST_REPORTS).reports, now)
            found.append(note_unserved(queue, there))
        if (topic := topic_of(draft, before=before)) is not None:
            found.append(note_unheard(topic, topics_of(self._tasks)))
        return [note for note in found if note is not None]
