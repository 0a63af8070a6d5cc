"""All scenarios by name. Each is one cycle: work, a fault, its end."""

from tests.faults import database_faults, delivery_faults, scheduler_faults
from tests.faults.house import Scenario

SCENARIOS: dict[str, Scenario] = {
    **scheduler_faults.SCENARIOS,
    **database_faults.SCENARIOS,
    **delivery_faults.SCENARIOS,
}
