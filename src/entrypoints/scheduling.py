"""The scheduler's two loops: dispatch at each due instant, reconcile every few seconds."""

from datetime import timedelta

from cronhare.application.dispatch import Dispatcher
from cronhare.application.reconcile import Reconciler
from cronhare.ports.claims import ClaimStorePort

#: How often a replica looks for what is overdue or lost.
RECONCILE_EVERY = timedelta(seconds=2)


class Scheduling:
    """What a scheduler process does between two rests."""

    def __init__(
        self, *, claims: ClaimStorePort, dispatcher: Dispatcher, reconciler: Reconciler
    ) -> None:
        """One clock decides what is due: the ledger's."""
        self._claims = claims
        self._dispatcher = dispatcher
        self._reconciler = reconciler
        self._reconcile_at = claims.now()

    def round(self) -> float:
        """Do what is due, and say how many seconds to rest."""
        now = self._claims.now()
        self._dispatcher.tick(now)
        if now >= self._reconcile_at or now < self._reconcile_at - RECONCILE_EVERY:
            self._reconciler.tick(now)
            self._reconcile_at = now + RECONCILE_EVERY
        wake_at = min(self._dispatcher.wake_at(now), self._reconcile_at)
        rest = (wake_at - self._claims.now()).total_seconds()
        return min(max(rest, 0.0), RECONCILE_EVERY.total_seconds())
