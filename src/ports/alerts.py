"""Alerts: the numbers that they are judged by, and which of them hold."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import attrs

from cronhare.domain.lifecycle.alerts import Alert, RaisedAlert, Signs


@attrs.frozen(kw_only=True)
class AlertChanges:
    """What `keep` has changed, by the names of the rules."""

    raised: Collection[str] = ()
    cleared: Collection[str] = ()


class AlertStorePort(Protocol):
    """Keeps alerts, for all processes together. Every method may raise `LedgerUnavailable`.

    What tests/integration/test_alert_store_contract.py does not assert is not promised.
    """

    def begin(self, *, now: datetime, every: timedelta) -> bool:
        """Begin to judge: of all callers one may, if nobody began within *every*."""
        ...

    def signs(self, *, now: datetime, retries: int) -> Signs:
        """Read what alerts are judged by, at a cost that does not grow with the ledger.

        An execution with more than *retries* of them was retried too often.
        """
        ...

    def keep(self, alerts: Collection[Alert], *, now: datetime) -> AlertChanges:
        """Note what holds. An alert that held before is kept as it was raised.

        One that has not held for `CLEAR_AFTER` is cleared.
        """
        ...

    def raised(self) -> Sequence[RaisedAlert]:
        """List the alerts that hold, by their rules."""
        ...
