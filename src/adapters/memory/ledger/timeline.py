"""What ran when, in memory."""

from datetime import datetime, timedelta

from cronhare.domain.overlaps import Ran
from cronhare.ports.timeline import RanInWindow

from .tables import MemoryLedger


class MemoryTimelineStore:
    """Satisfies `TimelineStorePort`."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def ran(self, since: datetime, until: datetime, *, limit: int) -> RanInWindow:
        found: list[Ran] = []
        with self._ledger.lock:
            for row in self._ledger.executions.newest_first():
                if row.executed_at < since - timedelta(days=1):
                    break
                own = self._ledger.executions.attempts(row.id)
                for attempt in reversed(own.values()):
                    ended = attempt.finished_at
                    if attempt.started_at < until and (ended is None or ended >= since):
                        if len(found) == limit:
                            return RanInWindow(ran=found, since=row.executed_at)
                        found.append(
                            Ran(
                                execution_id=row.id,
                                attempt=attempt.attempt,
                                scheduler_id=row.scheduler_id,
                                schedule_name=row.schedule_name,
                                node=attempt.node,
                                started_at=attempt.started_at,
                                finished_at=ended,
                                ending=attempt.ending,
                            )
                        )
        return RanInWindow(ran=found)
