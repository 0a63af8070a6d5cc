"""Lists of schedules, a page at a time: what people look through when there are very many."""

from collections.abc import Callable, Sequence
from datetime import datetime

import attrs

from cronhare.domain.retries.retry import RetryPolicy
from cronhare.ports.records import RecordsPort
from cronhare.ports.schedules import ScheduleFilter, ScheduleListPort, StoredSchedule

from .names import Names
from .views.schedules import SchedulePage, ScheduleView


@attrs.define(kw_only=True, eq=False)
class ScheduleLists:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`.

    *now* is the ledger's clock, *policy* that of schedules without one.
    """

    _lists: ScheduleListPort
    _records: RecordsPort
    _names: Names
    _policy: RetryPolicy
    _now: Callable[[], datetime]

    def page(self, which: ScheduleFilter, *, after: str | None = None, limit: int) -> SchedulePage:
        """List schedules by name, those that come *after* one; see `SchedulePage.after`.

        Raises:
            NotFound: there is no schedule of such a jobs file.
        """
        found = self._lists.page(which, after=after, limit=limit + 1, now=self._now())
        if not found and which.source is not None:
            self._names.expect_source(which.source)
        shown = self._shown(found[:limit])
        return SchedulePage(
            schedules=shown, after=shown[-1].name if shown and len(found) > limit else None
        )

    def count(self, which: ScheduleFilter, *, first: SchedulePage | None = None) -> int:
        """Count schedules, up to one more than `MOST_COUNTED`.

        The *first* page of them, where it is known, may have them all: what is searched for is
        looked for in very many rows, and seldom found in more.
        """
        if first is not None and first.after is None:
            return len(first.schedules)
        return self._lists.count(which, now=self._now())

    def _shown(self, found: Sequence[StoredSchedule]) -> Sequence[ScheduleView]:
        return shown_schedules(
            found, self._records, self._names, policy=self._policy, now=self._now()
        )


def shown_schedules(
    found: Sequence[StoredSchedule],
    records: RecordsPort,
    names: Names,
    *,
    policy: RetryPolicy,
    now: datetime,
) -> Sequence[ScheduleView]:
    """Show schedules with their last runs, and with the names of their tasks where these are known.

    See `Names.named`.
    """
    last = records.last_runs({stored.id for stored in found})
    return names.named_schedules(
        [ScheduleView.of(stored, last.get(stored.id), policy=policy, now=now) for stored in found]
    )
