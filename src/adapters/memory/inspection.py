"""A broker in memory cannot be inspected from another process."""

from cronhare.domain.diagnosis.servers import InMemory
from cronhare.domain.topology import Topology


class MemoryInspection:
    """Satisfies `BrokerInspectionPort`."""

    def inspect(self, topology: Topology) -> InMemory:  # noqa: ARG002 - the port's
        return InMemory()

    def probe(self) -> InMemory:
        return InMemory()
