"""Alerts in memory."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from itertools import islice

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.alerts import (
    CLEAR_AFTER,
    LOOKS_BACK,
    MOST_COUNTED,
    NEWEST,
    Alert,
    RaisedAlert,
    Signs,
    is_over,
)
from cronhare.ports.alerts import AlertChanges

from .tables import MemoryLedger


class MemoryAlertStore:
    """Satisfies `AlertStorePort`. Each public method is one transaction."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._rows = ledger.alerts

    def begin(self, *, now: datetime, every: timedelta) -> bool:
        """See `AlertStorePort.begin`."""
        with self._ledger.lock:
            last = self._ledger.alerts_judged_at
            if last is not None and now - every < last <= now + every:
                return False
            self._ledger.alerts_judged_at = now
            return True

    def signs(self, *, now: datetime, retries: int) -> Signs:
        """See `AlertStorePort.signs`."""
        with self._ledger.lock:
            newest = list(islice(self._ledger.executions.newest_first(), NEWEST))
            runs = [
                run
                for run in newest
                if run.executed_at >= now - LOOKS_BACK
                and run.state is not State.SKIPPED
                and not run.task.is_system
            ]
            worst = [
                run
                for run in runs
                if run.deaths > retries
                and (run.finished_at is None or run.finished_at >= now - CLEAR_AFTER)
            ]
            rows = self._ledger.archive.values()
            return Signs(
                unresolved=min(sum(row.resolution is None for row in rows), MOST_COUNTED),
                runs=len(runs),
                retried=sum(run.deaths > 0 for run in runs),
                too_often=len(worst),
                worst=worst[0] if worst else None,
            )

    def keep(self, alerts: Collection[Alert], *, now: datetime) -> AlertChanges:
        """See `AlertStorePort.keep`."""
        with self._ledger.lock:
            new = [each for each in alerts if each.rule.value not in self._rows]
            for each in new:
                row = RaisedAlert(rule=each.rule.value, raised_at=now, data=each.data)
                self._rows[row.rule] = row, now
            for each in alerts:
                self._rows[each.rule.value] = self._rows[each.rule.value][0], now
            old = [name for name, (_, held) in self._rows.items() if is_over(held, now)]
            for name in old:
                del self._rows[name]
            return AlertChanges(raised=[each.rule.value for each in new], cleared=old)

    def raised(self) -> Sequence[RaisedAlert]:
        """See `AlertStorePort.raised`."""
        with self._ledger.lock:
            return [self._rows[name][0] for name in sorted(self._rows)]
