"""Looking at servers as a doctor does: facts, and no judgement (`domain/diagnosis`)."""

from collections.abc import Sequence
from typing import Protocol

from cronhare.domain.diagnosis import BrokerFacts, InMemory, LaneReport, LedgerFacts, Unreachable
from cronhare.domain.topology import Topology


class BrokerInspectionPort(Protocol):
    """Looks at a broker. Changes nothing, and leaves no message where all is well."""

    def inspect(self, topology: Topology) -> BrokerFacts | InMemory | Unreachable:
        """Tell what there is of *topology*, and how the broker does. Bounded in time.

        A broker that is away is an answer, too.
        """
        ...

    def probe(self) -> Sequence[LaneReport] | InMemory | Unreachable:
        """Send one message through each delay lane that is empty. Bounded in time.

        Where nothing was declared, every lane is broken.
        """
        ...


class LedgerInspectionPort(Protocol):
    """Looks at a ledger, and changes nothing: no file is made, no schema upgraded."""

    def inspect(self) -> LedgerFacts | InMemory | Unreachable:
        """Tell what the ledger is kept in, and what its rows show. Bounded in time.

        A ledger that is away is an answer, too.
        """
        ...
