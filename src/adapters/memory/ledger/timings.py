"""When all schedules are due, in memory."""

from collections import Counter

import attrs

from cronhare.domain.cron import CronExpression, names_matter
from cronhare.domain.load.timings import SameTiming, Timings
from cronhare.domain.schedules.schedule import ByHand, Recurring, Timing

from .tables import MemoryLedger


class MemoryTimingStore:
    """Satisfies `TimingStorePort`."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def timings(self) -> Timings:
        with self._ledger.lock:
            found = [row.schedule for row in self._ledger.schedules.rows()]
        counted = Counter(
            (*_numbered(each.timing, each.name), each.jitter, each.starts_at, each.ends_at)
            for each in found
            if each.enabled and not each.is_system and not isinstance(each.timing, ByHand)
        )
        return Timings(
            groups=[
                SameTiming(
                    number=number,
                    timing=timing,
                    hashed=hashed,
                    jitter=jitter,
                    starts_at=since,
                    ends_at=until,
                )
                for (timing, hashed, jitter, since, until), number in counted.items()
            ]
        )

    def version(self) -> str:
        with self._ledger.lock:
            rows = self._ledger.schedules.rows()
            times = [row.updated_at for row in rows if not row.schedule.is_system]
        return f"{len(times)} {max(times, default=None)}"


def _numbered(timing: Timing, name: str) -> tuple[Timing, str | None]:
    """Put numbers for each `H`."""
    if isinstance(timing, Recurring) and names_matter(text := timing.expression.text):
        plain = CronExpression.parse(CronExpression.parse(text, name).plain)
        return attrs.evolve(timing, expression=plain), text
    return timing, None
