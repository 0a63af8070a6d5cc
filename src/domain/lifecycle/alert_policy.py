"""Above which numbers there is an alert: what can be set of it, and what is set by default."""

from typing import Final

import attrs

RUNBOOK: Final = "docs/operators.md: What failed, and of which schedule?"

LONGEST_RUNBOOK: Final = 2_048

#: Bounds of what can be set, and what is set by default.
LARGEST: Final = 1_000_000
DEFAULT_FAILED, DEFAULT_WARNING, DEFAULT_CRITICAL = 5, 10, 100
DEFAULT_RETRIES: Final = 2
DEFAULT_RETRY_RATE: Final = 0.2


@attrs.frozen(kw_only=True)
class AlertPolicy:
    """Above which numbers there is an alert; 0 stands for none.

    *failed*, *warning* and *critical* are about unresolved failures, *retries* about those of one
    execution, *retry_rate* about the part of the runs that were retried.
    """

    failed: int = DEFAULT_FAILED
    warning: int = DEFAULT_WARNING
    critical: int = DEFAULT_CRITICAL
    retries: int = DEFAULT_RETRIES
    retry_rate: float = DEFAULT_RETRY_RATE
    runbook: str = RUNBOOK
