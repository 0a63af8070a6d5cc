"""Measures a node's clock against the ledger's again and again, and logs how far it is off."""

import logging
from datetime import timedelta

from cronhare.application.heartbeat import LedgersClock
from cronhare.application.logs import say
from cronhare.domain.diagnosis.clock import WORRYING_SKEW
from cronhare.domain.lease_times import measured_every

log = logging.getLogger(__name__)


class ClockWatch:
    """Logs once for each change how far this node's clock is off."""

    def __init__(self, clock: LedgersClock, *, lease: timedelta) -> None:
        """Leases of length *lease* are written by the *clock*."""
        self._clock = clock
        self._rest = measured_every(lease).total_seconds()
        self._said = timedelta(0)

    def round(self) -> float:
        """Measure once; answers how many seconds to rest."""
        skew = self._clock.measure()
        if abs(skew - self._said) > WORRYING_SKEW:
            self._said = skew
            off = f"This node's clock is {skew.total_seconds():+.1f} s off the ledger's"
            level = logging.WARNING if abs(skew) > WORRYING_SKEW else logging.INFO
            say(log, level, "clock.skew", f"{off}, which decides")
        return self._rest
