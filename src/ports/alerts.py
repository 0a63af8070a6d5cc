"""Alerts: the numbers that they are judged by, and which of them hold."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import attrs

from cronhare.domain.lifecycle.alert_list import AlertFilter, AlertPlace
from cronhare.domain.lifecycle.alerts import Alert, RaisedAlert, Signs
from cronhare.domain.lifecycle.schedule_alerts import ScheduleSigns
from cronhare.domain.lifecycle.system_alerts import SystemSigns
from cronhare.domain.schedules.task import TaskRef


@attrs.frozen(kw_only=True)
class AlertChanges:
    """What `keep` has changed."""

    raised: Collection[RaisedAlert] = ()
    cleared: Collection[RaisedAlert] = ()


class AlertStorePort(Protocol):
    """Keeps alerts, for all processes together. Every method may raise `LedgerUnavailable`.

    Those of schedules are kept by the *source* of the file that asks for them; those of the whole
    ledger have none. What tests/integration/test_alert_store_contract.py does not assert is not
    promised.
    """

    def begin(
        self,
        *,
        now: datetime,
        every: timedelta,
        source: str | None = None,
        instead_of: datetime | None = None,
    ) -> bool:
        """Begin to judge those of a source: of all callers one may, if nobody began in *every*.

        Who began before and has not kept anything yet is waited for, until twice *every*. Who gives
        up what it began itself, *instead_of* which it begins anew, waits for nobody who has not
        begun since.
        """
        ...

    def signs(self, *, now: datetime, retries: int) -> Signs:
        """Read what alerts are judged by, at a cost that does not grow with the ledger.

        An execution with more than *retries* of them was retried too often.
        """
        ...

    def system_signs(self, *, now: datetime, served: Collection[str]) -> SystemSigns:
        """Read who waits for a scheduler, the broker or a worker, but for the nodes themselves.

        What waits in the queues that are *served* is not looked at. The cost grows with what waits.
        """
        ...

    def schedule_signs(
        self, scheduler_ids: Collection[int], *, usual: Collection[int], now: datetime
    ) -> Sequence[ScheduleSigns]:
        """Read what is to be known of schedules; of *usual* ones also what is usual, if it matters.

        It does for what runs, or ended last, if that is so long that it may alert.
        Looked at are runs of due instants alone, none of a backfill, by hand, or replayed. The cost
        grows with the number of schedules, and with what of them has not ended.
        """
        ...

    def of_no_file(
        self, refs: Collection[TaskRef], *, limit: int
    ) -> Mapping[int, tuple[str, TaskRef]]:
        """Find the enabled schedules that no jobs file has, and whose task is one of *refs*."""
        ...

    def keep(
        self,
        alerts: Collection[Alert],
        *,
        now: datetime,
        ended_at: datetime,
        source: str | None = None,
    ) -> AlertChanges:
        """Note what held of a source at *now*, when who judged began, and how.

        Judging has ended at *ended_at*. One that held before was raised when it was.

        Of judges that are late or judge at once each change is made by one: when another has ended
        that had begun after *now*, nothing is noted. One that has only begun supersedes nobody.

        Where nobody had ended judging for `UNJUDGED_AFTER` at *now*, what held before counts as
        held until then: those that began may have failed.

        One that has not held for `CLEAR_AFTER` is cleared, and forgotten `CLEARED_KEPT` later; of
        other sources what nobody has judged for as long.
        """
        ...

    def judged_at(self) -> datetime | None:
        """Say when judging the whole ledger ended last; None where nobody has ended it ever."""
        ...

    def revision(self) -> Hashable:
        """Give what is another one after each change of what `raised` and `cleared` list.

        It costs a teller next to nothing, and lists them only when there is something new.
        """
        ...

    def page(
        self, which: AlertFilter, *, after: AlertPlace | None, limit: int | None
    ) -> tuple[Sequence[RaisedAlert], bool]:
        """List alerts in the order of their places, at most *limit* beyond one of them.

        And say whether there are others after those. A broken row is passed over.
        """
        ...

    def raised(self) -> Sequence[RaisedAlert]:
        """List the alerts that hold, by their keys."""
        ...

    def cleared(self) -> Sequence[RaisedAlert]:
        """List those that are cleared and not forgotten, nor raised again, by their keys."""
        ...
