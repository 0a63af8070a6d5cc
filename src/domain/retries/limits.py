"""The limits that a process sets the retries of its executions."""

from datetime import timedelta

import attrs

from .breaker import BreakerPolicy
from .budget import LONGEST_DEFERRAL, LONGEST_WINDOW, BudgetPolicy


@attrs.frozen(kw_only=True)
class RetryLimits:
    """Which limits the ledger holds a retry against; None for none."""

    budget: BudgetPolicy | None = None
    breaker: BreakerPolicy | None = None


#: Retries as many as their policies say: nothing is asked, and nothing written.
UNLIMITED = RetryLimits()

#: What nobody has asked for so long holds nothing back: longer than any window and any pause, both
#: of them together, and the longest deferral and its window.
IDLE_FOR = LONGEST_DEFERRAL + LONGEST_WINDOW + timedelta(days=1)
