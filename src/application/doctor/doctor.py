"""Look at everything, and say what is wrong and how to mend it."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

import attrs

from cronhare.domain.topology import topology
from cronhare.ports.inspection import BrokerFacts, BrokerInspectionPort, LedgerInspectionPort

from .finding import Finding, Rules, Seen
from .nodes import NODES
from .queues import LANES, QUEUES
from .servers import BROKER_SERVER, LEDGER, SETTINGS
from .work import RUNS, SCHEDULES, TARGETS

#: All that there is to find, in the order in which it is told.
RULES: Final[Sequence[Rules]] = (
    SETTINGS,
    LEDGER,
    SCHEDULES,
    NODES,
    RUNS,
    BROKER_SERVER,
    QUEUES,
    TARGETS,
    LANES,
)


@attrs.frozen(kw_only=True)
class Doctor:
    """Holds what the servers show against what we need. Changes nothing.

    Both may be away: that is a finding, too.
    """

    _ledger: LedgerInspectionPort
    _broker: BrokerInspectionPort

    def examine(
        self, known: Seen, *, retry_delay: timedelta, probe: bool = False
    ) -> Iterator[Finding]:
        """Give the findings of what is *known* and of both servers. *probe* tries the lanes."""
        seen = attrs.evolve(known, ledger=self._ledger.inspect())
        wanted = topology(retry_delay=retry_delay, queues=tuple(seen.task_queues))
        seen = attrs.evolve(seen, broker=self._broker.inspect(wanted))
        if probe and isinstance(seen.broker, BrokerFacts):
            seen = attrs.evolve(seen, lanes=self._broker.probe())
        for rules in RULES:
            yield from rules.judge(seen)
