"""A day at a glance: what is due in each of its minutes, and what ran when."""

import enum
from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from cronhare.domain.load.curves import DayLoad, day_load
from cronhare.domain.nodes import container_id
from cronhare.domain.overlaps import Ran, overlaps
from cronhare.domain.retries.leaps import has_passed
from cronhare.ports.records import TimelineStorePort
from cronhare.ports.schedules import TimingStorePort

from .views.days import LoadView, TimelineView

#: Attempts that one timeline is made of, and its lanes.
MOST_ATTEMPTS: Final = 10_000
MOST_LANES: Final = 40

#: Days whose load is remembered while no schedule changes.
_REMEMBERED: Final = 8


#: So long a timeline is as good as new.
_FRESH: Final = timedelta(seconds=10)


class LaneBy(enum.StrEnum):
    """What the attempts of one lane have in common."""

    SCHEDULE = "schedule"
    NODE = "node"


_LANE_OF: Final[dict[LaneBy, Callable[[Ran], str]]] = {
    LaneBy.SCHEDULE: lambda ran: ran.schedule_name,
    LaneBy.NODE: lambda ran: container_id(ran.node),
}


class Days:
    """Answers for days, and changes nothing. Each method may raise `LedgerUnavailable`."""

    def __init__(
        self,
        *,
        timings: TimingStorePort,
        timeline: TimelineStorePort,
        now: Callable[[], datetime],
    ) -> None:
        """*now* is the ledger's clock."""
        self._timings = timings
        self._timeline = timeline
        self._now = now
        self._lock = Lock()
        self._version = ""
        self._loads = dict[datetime, DayLoad]()
        self._seen = dict[tuple[datetime, timedelta, LaneBy], TimelineView]()

    def load(self, begin: datetime) -> LoadView:
        """Show the load of the 24 hours from *begin* on, to the minute.

        It is computed anew once a schedule has changed: that takes a second or two for 100,000.
        """
        begin = begin.replace(second=0, microsecond=0)
        with self._lock:  # of several who ask, one computes
            version = self._timings.version()
            if version != self._version:
                self._version, self._loads = version, {}
            load = self._loads.pop(begin, None)
            if load is None:
                load = day_load(self._timings.timings(), begin)
            self._loads[begin] = load
            while len(self._loads) > _REMEMBERED:
                del self._loads[next(iter(self._loads))]
        return LoadView.of(load)

    def timeline(self, since: datetime, lasting: timedelta, *, by: LaneBy) -> TimelineView:
        """Show what ran from *since* on, for so long.

        Of more than `MOST_ATTEMPTS` those are shown that were claimed last. What was seen a moment
        ago is shown again.
        """
        now, asked = self._now(), (since, lasting, by)
        with self._lock:
            seen = self._seen.get(asked)
            if seen is None or has_passed(_FRESH, seen.now, now):
                self._seen = {
                    one: view
                    for one, view in self._seen.items()
                    if not has_passed(_FRESH, view.now, now)
                }
                seen = self._seen[asked] = self._lay_out(since, lasting, by, now)
        return seen

    def _lay_out(
        self, since: datetime, lasting: timedelta, by: LaneBy, now: datetime
    ) -> TimelineView:
        until = since + lasting
        found = self._timeline.ran(since, until, limit=MOST_ATTEMPTS)
        laid_out = overlaps(
            found.ran, since=since, until=until, now=now, lane_of=_LANE_OF[by], most=MOST_LANES
        )
        return TimelineView.of(laid_out, now=now, by=by.value, complete_since=found.since)
