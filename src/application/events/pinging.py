"""Finds runs that have begun or ended of which a service is pinged, and adds them to the outbox."""

from collections import OrderedDict
from collections.abc import Collection
from datetime import datetime
from typing import Final

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.lifecycle.pings import ENDS, LOOKS_BACK, RunEnd, end_of, start_of
from cronhare.domain.schedules.notify import Subscriptions
from cronhare.ports.events import EventStorePort

from .adding import Adder

#: Runs that a look finds; the next one finds the others.
MOST_FOUND: Final = 1_000

#: Runs of which it is remembered that they were added: others are added again, to no effect.
MOST_REMEMBERED: Final = 10_000


class Pinger:
    """Looks in each round of the announcer: a service measures from the start to the end."""

    def __init__(self, store: EventStorePort) -> None:
        self._store = store
        self._adder = Adder(store)
        self._added = OrderedDict[tuple[int, int], None]()
        self._after = 0

    def look(self, subscriptions: Subscriptions, full: Collection[str], now: datetime) -> None:
        """Look once; *full* targets are left out."""
        pings = {name: each for name, each in subscriptions.pings.items() if each.name not in full}
        if not pings:
            return
        source = subscriptions.source or ""
        ids = self._store.schedule_ids(pings, source=source)
        page = self._store.begun_or_ended(
            ids, since=now - LOOKS_BACK, after=self._after, limit=MOST_FOUND
        )
        found = [run for run in page.found if (run.id, run.version) not in self._added]
        ends = self._store.run_ends([run.id for run in found if run.state in ENDS])
        rows = list[OutboxRow]()
        for run in found:
            target = pings[ids[run.scheduler_id]].name
            if run.state in ENDS:
                end = ends.get(run.id, RunEnd())
                rows.append(end_of(run, end, target, source=source, now=now))
            elif run.state is State.RUNNING and run.attempt == 1:
                rows.append(start_of(run, target, source=source, now=now))
        self._adder.begin()
        self._adder.add(rows)
        self._after = page.next or 0
        for run in found:
            self._added[run.id, run.version] = None
        while len(self._added) > MOST_REMEMBERED:
            self._added.popitem(last=False)
