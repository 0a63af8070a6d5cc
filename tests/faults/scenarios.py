"""All scenarios by name. Each is one cycle: work, a fault, its end."""

from tests.faults import (
    broker_faults,
    database_faults,
    delivery_faults,
    link_faults,
    scheduler_faults,
    worker_faults,
)
from tests.faults.house import Scenario

SCENARIOS: dict[str, Scenario] = {
    **scheduler_faults.SCENARIOS,
    **worker_faults.SCENARIOS,
    **database_faults.SCENARIOS,
    **broker_faults.SCENARIOS,
    **link_faults.SCENARIOS,
    **delivery_faults.SCENARIOS,
}

#: Left to `make faults`: each has a sibling that is run with every change.
LONG = frozenset(
    {
        "broker-link-frozen",
        "broker-restarted",
        "database-link-frozen",
        "database-restarted",
        "scheduler-killed-inserted",
        "task-outlasts-consumer-timeout",
        "worker-drained",
    }
)
