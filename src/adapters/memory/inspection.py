"""What is in memory cannot be looked at from another process."""

from cronhare.domain.diagnosis import InMemory
from cronhare.domain.topology import Topology


class MemoryBrokerInspection:
    """Satisfies `BrokerInspectionPort`."""

    def inspect(self, topology: Topology) -> InMemory:  # noqa: ARG002 - the port's
        """See `BrokerInspectionPort.inspect`."""
        return InMemory()

    def probe(self) -> InMemory:
        """See `BrokerInspectionPort.probe`."""
        return InMemory()


class MemoryLedgerInspection:
    """Satisfies `LedgerInspectionPort`."""

    def inspect(self) -> InMemory:
        """See `LedgerInspectionPort.inspect`."""
        return InMemory()
