"""The parts that the container wires: where each is. It is imported when the first of it is made.

A command that lists nodes needs neither the worker nor what lies behind it, and imports are most of
the time of whoever asks one question. What lives long imports all of them before it begins.
"""

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Final

from .injection import providers

_PLACES: Final = (
    "cronhare.adapters.http.client:HttpClient",
    "cronhare.adapters.memory.broker:SilentBell",
    "cronhare.adapters.memory.broker:MemoryBroker",
    "cronhare.adapters.memory.broker:MemoryInspection",
    "cronhare.adapters.notify.apprise:AppriseSender",
    "cronhare.adapters.notify.mail:make_mailer",
    "cronhare.adapters.notify.notifier:Notifier",
    "cronhare.adapters.process.runner:ProcessRunner",
    "cronhare.adapters.sql.access:SqlAccessStore",
    "cronhare.adapters.sql.events.alerts:SqlAlertStore",
    "cronhare.adapters.sql.attempts:SqlAttemptStore",
    "cronhare.adapters.sql.access:SqlAuditStore",
    "cronhare.adapters.sql.claims.store:SqlClaimStore",
    "cronhare.adapters.sql.events.outbox:SqlEventStore",
    "cronhare.adapters.sql.database:SqlLedgerTime",
    "cronhare.adapters.sql.limits:SqlLimitStore",
    "cronhare.adapters.sql.records.lists:SqlNames",
    "cronhare.adapters.sql.nodes:SqlNodeStore",
    "cronhare.adapters.sql.gauges:SqlOverview",
    "cronhare.adapters.sql.records.store:SqlRecords",
    "cronhare.adapters.sql.records.replays:SqlReplayStore",
    "cronhare.adapters.sql.schedule_lists:SqlScheduleEdits",
    "cronhare.adapters.sql.schedule_lists:SqlScheduleLists",
    "cronhare.adapters.sql.schedules:SqlScheduleStore",
    "cronhare.adapters.sql.records.statistics:SqlStatistics",
    "cronhare.adapters.sql.records.lists:SqlTimelineStore",
    "cronhare.adapters.sql.records.statistics:SqlTimingStore",
    "cronhare.adapters.sql.dialects:open_engine",
    "cronhare.adapters.sql.records.inspection:SqlInspection",
    "cronhare.adapters.system.fifo_bell:FifoBell",
    "cronhare.adapters.system.host:release",
    "cronhare.adapters.system.clock:HostClock",
    "cronhare.adapters.system.clock:LedgerClock",
    "cronhare.application.administration.reading.alerts:AlertDesk",
    "cronhare.application.administration.changing.access:Admission",
    "cronhare.application.administration.reading.now:AuditQueries",
    "cronhare.application.administration.audit:AuditTrail",
    "cronhare.application.administration.changing.replays:Backfills",
    "cronhare.application.administration.reading.schedules:Calendars",
    "cronhare.application.administration.changing.runs:Administrator",
    "cronhare.application.administration.reading.now:Days",
    "cronhare.application.doctor.doctor:Doctor",
    "cronhare.application.administration.explanations:Explanations",
    "cronhare.application.administration.jobs_file.difference:FileContent",
    "cronhare.application.administration.jobs_file.applying:JobsFileApplier",
    "cronhare.application.administration.reading.now:Metrics",
    "cronhare.application.administration.names:Names",
    "cronhare.application.administration.changing.work:NodeDesk",
    "cronhare.application.administration.jobs_file.notes:DraftNotes",
    "cronhare.application.administration.reading.alerts:Outbox",
    "cronhare.application.administration.reading.output:OutputPages",
    "cronhare.application.administration.reading.now:Overview",
    "cronhare.application.administration.reading.queries:Queries",
    "cronhare.application.administration.changing.replays:Replays",
    "cronhare.application.administration.changing.work:RetryLimitDesk",
    "cronhare.application.administration.reading.schedules:RunHistory",
    "cronhare.application.administration.changing.schedules:ReportDesk",
    "cronhare.application.administration.changing.schedules:ScheduleDesk",
    "cronhare.application.administration.changing.schedules:ScheduleEditor",
    "cronhare.application.administration.reading.schedules:ScheduleLists",
    "cronhare.application.administration.reading.schedules:ScheduleViews",
    "cronhare.application.administration.reading.now:Statistics",
    "cronhare.application.administration.stories:Stories",
    "cronhare.application.administration.changing.access:TokenDesk",
    "cronhare.domain.events.targets:Subscribers",
    "cronhare.application.publish:SendingBell",
    "cronhare.domain.lifecycle.retry_limits:RetryPolicies",
    "cronhare.domain.messages:Signer",
    "cronhare.domain.schedules.catalog:Catalog",
    "cronhare.domain.events.targets:Subscriptions",
)


class Late:
    """A class or a function of another module, which is imported when it is called."""

    def __init__(self, place: str) -> None:
        """Know where it is: `module:name`."""
        self._module, _, self.name = place.partition(":")

    def found(self) -> Any:  # noqa: ANN401 - whatever it is
        """Import it."""
        return getattr(import_module(self._module), self.name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as it takes them
        """Call it."""
        return self.found()(*arguments, **options)


class LazyPart:
    """A part that is made when something is first asked of it.

    Whoever answers many questions has parts of which each question needs but some.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        """*make* gives the same one each time."""
        self._make = make

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the part has
        """Make it, if need be."""
        return getattr(self._make(), name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._make())


LATE: Final = {late.name: late for late in map(Late, _PLACES)}

_OPTIONAL: Final = (
    "cronhare.adapters.prometheus.metrics:PrometheusMetrics",
    "cronhare.adapters.tracing:open_tracing",
    "cronhare.entrypoints.probes:make_registry",
)

#: What a setting asks for. It is made before a process begins, and without that not at all.
OPTIONAL: Final = {late.name: late for late in map(Late, _OPTIONAL)}


def preload(parts: Iterable[providers.Provider[Any]]) -> None:
    """Import what these parts, and all behind them, are made of: for a process that lives long."""
    waiting, seen = [*parts], set[int]()
    while waiting:
        part = waiting.pop()
        made = getattr(part, "provides", None)
        if id(part) in seen or (isinstance(made, Late) and made.name in OPTIONAL):
            continue
        seen.add(id(part))
        if isinstance(made, Late):
            made.found()
        waiting.extend(part.related)
