"""The limits that a process sets the retries of its executions."""

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
