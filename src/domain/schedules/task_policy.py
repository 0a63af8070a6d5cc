"""How tasks are run: what a jobs file says for all of them, for a class, or for one (ADR 9).

The nearest wins, field by field: environment, the file's defaults, the task's class, the task, the
schedule.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import attrs

from ..retries.outcome import ErrorClass
from ..retries.policy import POLICIES, ErrorRules, RetryPolicy, Strategy
from .retention import Keep


@attrs.frozen(kw_only=True)
class TaskPolicy:
    """What is said of how tasks are run; what is None is not said.

    *errors* gives classes to errors by their names, *strategy* takes the place of the waits, *keep*
    says how many ended runs of a whole class are kept.
    """

    retry: RetryPolicy | None = None
    timeout: timedelta | None = None
    errors: ErrorRules = attrs.field(factory=dict[str, ErrorClass])
    strategy: Strategy | None = None
    keep: Keep | None = None

    def over(self, farther: "TaskPolicy") -> "TaskPolicy":
        """Give what counts where *farther* is the policy one step away.

        >>> emails = TaskPolicy(timeout=timedelta(minutes=5))
        >>> TaskPolicy(retry=RetryPolicy()).over(emails).timeout
        datetime.timedelta(seconds=300)
        """
        return TaskPolicy(
            retry=self.retry or farther.retry,
            timeout=self.timeout or farther.timeout,
            errors={**farther.errors, **self.errors},
            strategy=self.strategy or farther.strategy,
            keep=farther.keep if self.keep is None else self.keep.over(farther.keep),
        )


#: Classes that need no declaration: S2.3, S0.13 and C37 in docs/compatibility.md. A file that
#: declares one changes what it names of it.
BUILT_IN_CLASSES: Final[Mapping[str, TaskPolicy]] = {
    "emails": TaskPolicy(retry=POLICIES["emails"], keep=Keep(done=100, failed=500)),
    "webhooks": TaskPolicy(retry=POLICIES["webhooks"], keep=Keep(done=500, failed=1_000)),
    "payments": TaskPolicy(retry=POLICIES["payments"], keep=Keep(done=1_000, failed=5_000)),
    "fast-failing": TaskPolicy(retry=POLICIES["fast-failing"]),
    "slow-recovering": TaskPolicy(retry=POLICIES["slow-recovering"]),
    "lease-style": TaskPolicy(retry=POLICIES["lease-style"], timeout=timedelta(seconds=300)),
}
