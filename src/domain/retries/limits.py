"""The limits that a process sets the retries of its executions."""

from datetime import timedelta

import attrs

from .breaker import BreakerPolicy
from .budget import BudgetPolicy


@attrs.frozen(kw_only=True)
class RetryLimits:
    """Which limits the ledger holds a retry against; None for none."""

    budget: BudgetPolicy | None = None
    breaker: BreakerPolicy | None = None


#: Retries as many as their policies say: nothing is asked, and nothing written.
UNLIMITED = RetryLimits()

#: What nobody has asked for so long holds nothing back: longer than any window and any pause, and
#: both of them together.
IDLE_FOR = timedelta(days=3)
