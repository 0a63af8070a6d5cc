"""A broker in memory cannot be inspected from another process."""

from cronhare.domain.topology import Topology
from cronhare.ports.inspection import InMemory


class MemoryInspection:
    """Satisfies `BrokerInspectionPort`."""

    def inspect(self, topology: Topology) -> InMemory:  # noqa: ARG002 - the port's
        return InMemory()

    def probe(self) -> InMemory:
        return InMemory()
