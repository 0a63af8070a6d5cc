"""Look at everything, and say what is wrong and how to mend it."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

import attrs

from cronhare.domain.events.targets import Subscriptions
from cronhare.domain.schedules.catalog import FileVersion
from cronhare.domain.schedules.task import Task
from cronhare.domain.topology import topology
from cronhare.ports.inspection import BrokerFacts, BrokerInspectionPort, LedgerInspectionPort

from .finding import Finding, Rules, Seen, SettingsFacts
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

#: Those of no file.
NO_SUBSCRIPTIONS: Final = Subscriptions()


class Doctor:
    """Holds what the servers show against what we need. Changes nothing."""

    def __init__(self, *, ledger: LedgerInspectionPort, broker: BrokerInspectionPort) -> None:
        """Both may be away: that is a finding, too."""
        self._ledger = ledger
        self._broker = broker

    def examine(
        self,
        *,
        queues: Sequence[str],
        retry_delay: timedelta,
        tasks: Sequence[Task] | None,
        settings: SettingsFacts | None = None,
        jobs: str | None = None,
        file: FileVersion | None = None,
        subscriptions: Subscriptions = NO_SUBSCRIPTIONS,
        probe: bool = False,
    ) -> Iterator[Finding]:
        """Give the findings; for what is given see `Seen`. With *probe* the lanes are tried."""
        seen = Seen(
            settings=settings,
            ledger=self._ledger.inspect(),
            queues=queues,
            tasks=tasks,
            jobs=jobs,
            file=file,
            subscriptions=subscriptions,
        )
        wanted = topology(retry_delay=retry_delay, queues=tuple(seen.task_queues))
        seen = attrs.evolve(seen, broker=self._broker.inspect(wanted))
        if probe and isinstance(seen.broker, BrokerFacts):
            seen = attrs.evolve(seen, lanes=self._broker.probe())
        for rules in RULES:
            yield from rules.judge(seen)
