"""A day at a glance: what ran when, and what begins in each minute."""

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

import attrs

from cronhare.application.reports.load import DayLoad, day_load
from cronhare.application.reports.overlaps import LaneBy, Overlaps, overlaps
from cronhare.ports.statistics import StatisticsPort

#: Attempts that one timeline is made of, and its lanes.
MOST_ATTEMPTS: Final = 10_000
MOST_LANES: Final = 40

#: Days whose load is remembered while no schedule changes.
_REMEMBERED: Final = 8


@attrs.define(kw_only=True, eq=False)
class Days:
    """Answers for days, and changes nothing; *now* is the ledger's clock."""

    _statistics: StatisticsPort
    _now: Callable[[], datetime]
    _lock: Lock = attrs.field(init=False, factory=Lock)
    _loads: dict[tuple[str, datetime], DayLoad] = attrs.field(init=False, factory=dict)

    def load(self, begin: datetime) -> DayLoad:
        """Show the load of the 24 hours from *begin* on, to the minute.

        It is computed anew once a schedule has changed: that takes a second or two for 100,000.
        """
        begin = begin.replace(second=0, microsecond=0)
        with self._lock:  # of several who ask, one computes
            key = self._statistics.version(), begin
            load = self._loads.pop(key, None) or day_load(self._statistics.timings(), begin)
            self._loads[key] = load
            if len(self._loads) > _REMEMBERED:
                del self._loads[next(iter(self._loads))]
        return load

    def timeline(self, since: datetime, lasting: timedelta, *, by: LaneBy) -> Overlaps:
        """Show what ran from *since* on, for so long.

        Of more than `MOST_ATTEMPTS` those are shown that were claimed last.
        """
        until = since + lasting
        found = self._statistics.ran(since, until, limit=MOST_ATTEMPTS)
        return overlaps(
            found.ran,
            since=since,
            until=until,
            now=self._now(),
            by=by,
            most=MOST_LANES,
            complete_since=found.since,
        )
