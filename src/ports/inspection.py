"""Looking at servers as a doctor does: facts, and no judgement (`domain/diagnosis`)."""

from typing import Protocol

from cronhare.domain.diagnosis import BrokerFacts, InMemory, LedgerFacts, Unreachable
from cronhare.domain.topology import Topology


class BrokerInspectionPort(Protocol):
    """Looks at a broker. Leaves no message, and changes nothing."""

    def inspect(self, topology: Topology) -> BrokerFacts | InMemory | Unreachable:
        """Tell what there is of *topology*, and how the broker does. Bounded in time.

        A broker that is away is an answer, too.
        """
        ...


class LedgerInspectionPort(Protocol):
    """Looks at a ledger, and changes nothing: no file is made, no schema upgraded."""

    def inspect(self) -> LedgerFacts | InMemory | Unreachable:
        """Tell what the ledger is kept in, and what its rows show. Bounded in time.

        A ledger that is away is an answer, too.
        """
        ...
