"""Which retry policy holds for an execution, the nearest that says anything; and the limits."""

import attrs

from ..execution import Execution
from ..retries.crashes import CrashPolicy
from ..retries.limits import UNLIMITED, RetryLimits
from ..retries.retry import RetryPolicy
from ..schedules.catalog import Catalog
from ..schedules.task import Task


@attrs.frozen(eq=False)
class RetryPolicies:
    """The schedule's own policy, else its task's in the jobs file, else the *environment*'s.

    Where none of them says what a poison pill is, *crashes* does: it is the environment's, too.

    A schedule of a jobs file has its task's in its row. So a process without that file, such as a
    scheduler, decides alike; of rows written by hand it knows the environment's alone. The *limits*
    hold for all retries.
    """

    environment: RetryPolicy
    catalog: Catalog = attrs.field(factory=Catalog)
    limits: RetryLimits = UNLIMITED
    crashes: CrashPolicy = attrs.field(factory=CrashPolicy)

    def of(self, execution: Execution) -> RetryPolicy:
        """Give the policy of an execution."""
        if execution.retry is not None:
            return execution.retry
        task = self.catalog.find(
            execution.task,
            source=execution.source,
            name=execution.task_name,
            topic=execution.topic,
        )
        own = task.policy.retry if isinstance(task, Task) else None
        return own or self.environment

    def crashes_of(self, execution: Execution) -> CrashPolicy:
        """Say what makes a poison pill of an execution."""
        return self.of(execution).crashes or self.crashes
