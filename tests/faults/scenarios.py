"""All scenarios by name. Each is one cycle: work, a fault, its end."""

from tests.faults import (
    broker_faults,
    cluster_faults,
    database_faults,
    delivery_faults,
    galera_faults,
    link_faults,
    scheduler_faults,
    worker_faults,
)
from tests.faults.house import Scenario

SCENARIOS: dict[str, Scenario] = {
    **scheduler_faults.SCENARIOS,
    **worker_faults.SCENARIOS,
    **database_faults.SCENARIOS,
    **database_faults.ON_POSTGRESQL,
    **broker_faults.SCENARIOS,
    **cluster_faults.SCENARIOS,
    **galera_faults.SCENARIOS,
    **link_faults.SCENARIOS,
    **delivery_faults.SCENARIOS,
}

#: What is run with every change: a death of each kind. `make faults` runs all of them.
SHORT = (
    "scheduler-killed-committed",
    "worker-killed",
    "database-killed",
    "broker-killed",
)
