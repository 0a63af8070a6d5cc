"""What `cronhare doctor` reads from servers: facts; `domain/diagnosis` judges them."""

from collections.abc import Sequence
from typing import Protocol

from cronhare.domain.diagnosis.broker import BrokerFacts
from cronhare.domain.diagnosis.lanes import LaneReport
from cronhare.domain.diagnosis.ledger import LedgerFacts
from cronhare.domain.diagnosis.servers import InMemory, Unreachable
from cronhare.domain.topology import Topology

LedgerAnswer = LedgerFacts | Unreachable
BrokerAnswer = BrokerFacts | InMemory | Unreachable


class BrokerInspectionPort(Protocol):
    """Looks at a broker. Changes nothing, and leaves no message where all is well."""

    def inspect(self, topology: Topology) -> BrokerAnswer:
        """Compare the broker with *topology*. Bounded in time; an outage is an answer, too."""
        ...

    def probe(self) -> Sequence[LaneReport] | InMemory | Unreachable:
        """Send one message through each empty delay lane. Bounded in time.

        A lane that was never declared is broken.
        """
        ...


class LedgerInspectionPort(Protocol):
    """Looks at a ledger, and changes nothing: it makes no file and upgrades no schema."""

    def inspect(self) -> LedgerAnswer:
        """Describe the database and its rows. Bounded in time; an outage is an answer, too."""
        ...
