"""What is in memory cannot be inspected from another process."""

from cronhare.domain.diagnosis.servers import InMemory
from cronhare.domain.topology import Topology


class MemoryInspection:
    """Satisfies `BrokerInspectionPort` and `LedgerInspectionPort`."""

    def inspect(self, topology: Topology | None = None) -> InMemory:  # noqa: ARG002 - the port's
        """See `BrokerInspectionPort.inspect` and `LedgerInspectionPort.inspect`."""
        return InMemory()

    def probe(self) -> InMemory:
        return InMemory()
