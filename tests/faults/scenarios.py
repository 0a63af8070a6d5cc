"""All scenarios by name. Each is one cycle: work, a fault, its end."""

from tests.faults import broker_faults, database_faults, link_faults, process_faults
from tests.faults.house import Scenario

SCENARIOS: dict[str, Scenario] = {
    **process_faults.SCENARIOS,
    **database_faults.SCENARIOS,
    **database_faults.ON_POSTGRESQL,
    **database_faults.ON_GALERA,
    **broker_faults.SCENARIOS,
    **broker_faults.ON_CLUSTER,
    **link_faults.SCENARIOS,
}

#: What is run with every change: a death of each kind. `make faults` runs all of them.
SHORT = (
    "scheduler-killed-committed",
    "worker-killed",
    "database-killed",
    "broker-killed",
)
