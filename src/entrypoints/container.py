"""The container: where adapters are chosen and wired; `working` adds what works.

Parts are imported when they are made: a command that lists nodes needs neither the worker nor what
lies behind it. What lives long imports all of them before it begins.
"""

import logging
import random
import sys
import uuid
from collections.abc import Callable, Iterable
from importlib import import_module
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from cronhare.adapters.extras import require
from cronhare.adapters.system.clock import SystemClock
from cronhare.ports.system import NOT_TRACED, SILENT

from .node_identity import this_node, this_program
from .settings.settings import Settings
from .vitals import Vitals

#: What the library imports where it is installed, and has no use for here: 0.2 s of each command.
_UNUSED: Final[dict[str, Any]] = {
    "pydantic_settings": SimpleNamespace(BaseSettings=SimpleNamespace),
    **dict.fromkeys(("fastapi", "starlette", "werkzeug", "yaml")),  # as if they were not there
}

_hidden = _UNUSED.keys() - sys.modules.keys()
sys.modules.update({name: _UNUSED[name] for name in _hidden})
try:
    from dependency_injector import containers
    from dependency_injector import providers as providers  # noqa: PLC0414 - others take it from here
finally:
    for _name in _hidden:
        del sys.modules[_name]


class Part:
    """A class or a function, `module:name`, whose module is imported when it is called."""

    def __init__(self, place: str) -> None:
        self.place = place

    def found(self) -> Any:  # noqa: ANN401 - whatever it is
        module, _, name = self.place.partition(":")
        return getattr(import_module(module), name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as it takes them
        return self.found()(*arguments, **options)


def one(place: str, *arguments: Any, **options: Any) -> providers.Singleton[Any]:  # noqa: ANN401
    return providers.ThreadSafeSingleton(Part(place), *arguments, **options)


def each(place: str, *arguments: Any, **options: Any) -> providers.Factory[Any]:  # noqa: ANN401
    return providers.Factory(Part(place), *arguments, **options)


def stores(*ledger: providers.Provider[Any]) -> Callable[[str], providers.Singleton[Any]]:
    return lambda place: one(f"{_SQL}.{place}", *ledger)


def preload(parts: Iterable[providers.Provider[Any]]) -> None:
    waiting, seen = list[Any](parts), set[Any]()
    while waiting:
        part = waiting.pop()
        if part in seen:
            continue
        seen.add(part)
        if isinstance(part, providers.Selector):
            waiting.append(part.providers[part.selector()])  # type: ignore[misc] # it has one
            continue
        if isinstance(made := getattr(part, "provides", None), Part):
            made.found()
        waiting.extend(part.related)


if TYPE_CHECKING:
    from sqlalchemy import Engine

    from cronhare.adapters.sql.attempts import SqlAttemptStore
    from cronhare.adapters.sql.claims.store import SqlClaimStore
    from cronhare.adapters.sql.database import SqlLedgerTime
    from cronhare.adapters.sql.events.alerts import SqlAlertStore
    from cronhare.adapters.sql.events.outbox import SqlEventStore
    from cronhare.adapters.sql.limits import SqlLimitStore
    from cronhare.adapters.sql.nodes import SqlNodeStore
    from cronhare.adapters.sql.records.store import SqlRecords
    from cronhare.adapters.sql.schedules import SqlScheduleStore
    from cronhare.application.administration.changing.access import Admission
    from cronhare.application.administration.changing.replays import Replays
    from cronhare.application.administration.changing.runs import Administrator
    from cronhare.application.administration.changing.schedules import ScheduleEditor
    from cronhare.application.administration.explain import Explanations
    from cronhare.application.administration.jobs_file.applying import JobsFileApplier
    from cronhare.application.administration.reading.alerts import AlertDesk
    from cronhare.application.administration.reading.queries import Queries
    from cronhare.application.administration.reading.schedules import ScheduleViews

_ADAPTERS, _SQL = "cronhare.adapters", "cronhare.adapters.sql"
_RABBITMQ = "cronhare.adapters.rabbitmq"
_APPLICATION, _USES = "cronhare.application", "cronhare.application.administration"

#: Seconds that a person waits for a broker's answer, and half of it for its farewell.
SENDING_TIMEOUT: Final = 2.0


class Container(containers.DeclarativeContainer):
    """The parts of one process. The URLs choose the database, and memory or RabbitMQ.

    Several threads ask for them: of each there is one, whoever was first.
    """

    settings = providers.Dependency(instance_of=Settings)
    tasks = providers.Object(())
    #: Jobs file and app that the tasks are of, as they were read last; where people look at them.
    jobs_files: providers.Provider[Any] = providers.Object(())
    #: Their versions, where tasks of them are run.
    file_versions: providers.Provider[Any] = providers.Object(())
    subscriptions = one("cronhare.domain.events.targets:Subscriptions")
    #: Those of an app beside a jobs file.
    more_subscriptions = one("cronhare.domain.events.targets:Subscriptions")
    queues = providers.Object(())
    #: The weights of those of the queues that have another than 1.
    weights = providers.Object(MappingProxyType(dict[str, int]()))

    ourselves = providers.ThreadSafeSingleton(this_node)
    node = providers.ThreadSafeSingleton(str, ourselves)
    clock = providers.ThreadSafeSingleton(SystemClock)
    random_fraction = providers.Object(random.random)
    uuid4 = providers.Object(uuid.uuid4)

    signer = one("cronhare.domain.messages:Signer", settings.provided.message_keys)

    engine: "providers.Singleton[Engine]" = one(
        f"{_SQL}.dialects:open_engine", settings.provided.database_url
    )
    _store = stores(engine, clock)
    ledger_time: "providers.Singleton[SqlLedgerTime]" = _store("database:SqlLedgerTime")
    #: The ledger's clock.
    now = ledger_time.provided.now
    claims: "providers.Singleton[SqlClaimStore]" = one(
        f"{_SQL}.claims.store:SqlClaimStore",
        engine,
        clock,
        judge=each(f"{_ADAPTERS}.system.host:release"),
        late=settings.provided.catch_up,
    )
    attempts: "providers.Singleton[SqlAttemptStore]" = _store("attempts:SqlAttemptStore")
    schedules: "providers.Singleton[SqlScheduleStore]" = _store("schedules:SqlScheduleStore")
    schedule_lists = _store("schedule_lists:SqlScheduleLists")
    overview_store = _store("gauges:SqlOverview")
    records: "providers.Singleton[SqlRecords]" = _store("records.store:SqlRecords")
    nodes: "providers.Singleton[SqlNodeStore]" = _store("nodes:SqlNodeStore")
    limits: "providers.Singleton[SqlLimitStore]" = _store("limits:SqlLimitStore")
    events: "providers.Singleton[SqlEventStore]" = _store("events.outbox:SqlEventStore")
    replay_store = _store("records.replays:SqlReplayStore")

    ledger_clock = providers.Selector(
        settings.provided.ledger_kind,
        file=one(f"{_ADAPTERS}.system.clock:HostClock", clock),
        server=one(f"{_ADAPTERS}.system.clock:LedgerClock", ledger_time.provided.now, clock),
    )

    audit_store = _store("access:SqlAuditStore")
    audit_trail = one(
        f"{_USES}.audit:AuditTrail",
        entries=audit_store,
        stopwatch=clock.provided.monotonic,
        now=now,
    )
    limit_desk = one(f"{_USES}.changing.work:LimitDesk", limits=limits, trail=audit_trail)
    statistics_store = _store("records.statistics:SqlStatistics")
    metrics = one(
        f"{_USES}.reading.measures:Metrics",
        statistics=statistics_store,
        records=records,
        nodes=nodes,
        limits=limit_desk,
        now=now,
        schedules=settings.provided.metrics_schedules,
    )
    vitals = providers.ThreadSafeSingleton(Vitals)
    registry = one("cronhare.entrypoints.probes:make_registry", vitals, metrics.provided.measure)
    counting = providers.Selector(
        settings.provided.counting_kind,
        silent=providers.Object(SILENT),
        prometheus=one(
            f"{_ADAPTERS}.prometheus.metrics:PrometheusMetrics",
            registry,
            now=ledger_clock.provided.now,
        ),
    )
    tracing = providers.Selector(
        settings.provided.tracing_kind,
        off=providers.Object(NOT_TRACED),
        opentelemetry=one(f"{_ADAPTERS}.tracing:open_tracing", node),
    )

    _topology = MappingProxyType({"retry_delay": settings.provided.retry_delay, "queues": queues})
    _queue_options = MappingProxyType(
        {
            "queue_type": settings.provided.queue_type,
            "deduplication": settings.provided.message_deduplication,
        }
    )
    memory_broker = one(f"{_ADAPTERS}.memory.broker:MemoryBroker", clock, **_topology)
    broker = providers.Selector(
        settings.provided.broker_kind,
        memory=memory_broker,
        amqp=one(
            f"{_RABBITMQ}.broker:PikaBroker",
            settings.provided.broker_url,
            **_topology,
            **_queue_options,
        ),
    )
    connection = providers.Selector(
        settings.provided.broker_kind,
        memory=memory_broker.provided.connect.call(),
        amqp=each(
            f"{_RABBITMQ}.async_broker:AioPikaBroker",
            settings.provided.broker_url,
            **_topology,
            **_queue_options,
        ),
    )
    catalog = one("cronhare.domain.schedules.catalog:Catalog", tasks)
    #: By what people may call tasks: those of this process, unless it runs none.
    registered: providers.Provider[Any] = catalog.provided
    names = one(
        f"{_USES}.reading.lookup:Names",
        names=_store("records.lists:SqlNames"),
        schedules=schedules,
        nodes=nodes,
        tasks=registered,
        now=now,
    )
    draft_notes = one(f"{_USES}.jobs_file.notes:DraftNotes", nodes=nodes, tasks=registered, now=now)
    policies = one(
        "cronhare.domain.lifecycle.retry_limits:RetryPolicies",
        settings.provided.policy,
        catalog,
        limits=settings.provided.limits,
        crashes=settings.provided.crash_policy,
        late=settings.provided.catch_up,
    )
    subscribers = one("cronhare.domain.events.targets:Subscribers", subscriptions)
    more_subscribers = one("cronhare.domain.events.targets:Subscribers", more_subscriptions)
    http = one(
        f"{_ADAPTERS}.http.client:HttpClient",
        settings.provided.allowed_hosts,
        agent=providers.Callable(this_program),
    )
    mailer = one(
        f"{_ADAPTERS}.notify.mail:make_mailer",
        settings.provided.mail_server,
        sender=settings.provided.smtp_from,
        web_hosts=settings.provided.web_hosts,
    )
    #: Commands of targets run apart from the tasks: the caller closes it.
    notifier = each(
        f"{_ADAPTERS}.notify.notifier:Notifier",
        http=http,
        runner=each(f"{_ADAPTERS}.process.runner:ProcessRunner"),
        mailer=mailer,
        apprise=each(f"{_ADAPTERS}.notify.apprise:AppriseSender"),
        now=clock.provided.now,
    )
    alerts: "providers.Singleton[SqlAlertStore]" = _store("events.alerts:SqlAlertStore")
    #: What a person asks for is heard by the workers, or by the `up` that has the ledger's file.
    _sending = MappingProxyType(
        {
            "open_broker": each(
                f"{_RABBITMQ}.broker:PikaBroker",
                settings.provided.broker_url,
                declares=False,
                publish_timeout=SENDING_TIMEOUT,
                level=logging.DEBUG,
            ).provider,
            "nodes": nodes,
            "signer": signer,
            "foreign_queues": settings.provided.foreign_queues,
        }
    )
    fifo_bell = one(f"{_ADAPTERS}.system.fifo_bell:FifoBell", settings.provided.ledger.path)
    no_bell = one(f"{_ADAPTERS}.memory.broker:SilentBell")
    bell = providers.Selector(
        settings.provided.bell_kind,
        broker=one(f"{_APPLICATION}.bell:SendingBell", **_sending),
        fifo=fifo_bell,
        none=no_bell,
    )
    #: What a program asks for, all day: its bell keeps the connection, and nobody waits for it.
    enqueue_store = _store("enqueue:SqlEnqueueStore")
    lasting_bell = providers.Selector(
        settings.provided.bell_kind,
        broker=one(f"{_APPLICATION}.bell:SendingBell", lasts=True, **_sending),
        fifo=fifo_bell,
        none=no_bell,
    )
    background_bell = one(
        f"{_APPLICATION}.bell:BackgroundBell",
        lasting_bell,
        now=ledger_clock.provided.now,
        find=enqueue_store.provided.committed,
    )
    enqueuer = one(
        f"{_USES}.changing.enqueue:Enqueuer",
        store=enqueue_store,
        bell=background_bell,
        node=node,
        now=ledger_clock.provided.now,
        measure=ledger_clock.provided.measure,
    )
    task_desk = one(
        f"{_USES}.changing.enqueue:TaskDesk",
        enqueuer=enqueuer,
        records=records,
        trail=one(
            f"{_USES}.audit:AuditTrail",
            entries=audit_store,
            stopwatch=clock.provided.monotonic,
            now=ledger_clock.provided.now,
        ),
    )
    access = _store("access:SqlAccessStore")
    admission: "providers.Singleton[Admission]" = one(
        f"{_USES}.changing.access:Admission", access=access, trail=audit_trail
    )
    administrator: "providers.Singleton[Administrator]" = one(
        f"{_USES}.changing.runs:Administrator",
        schedules=schedules,
        records=records,
        names=names,
        node=node,
        uuid=uuid4,
        policy=settings.provided.policy,
        bell=bell,
        trail=audit_trail,
    )
    schedule_views: "providers.Singleton[ScheduleViews]" = one(
        f"{_USES}.reading.schedules:ScheduleViews",
        schedules=schedules,
        lists=schedule_lists,
        overview=overview_store,
        records=records,
        names=names,
        policy=settings.provided.policy,
        now=now,
    )
    schedule_editor: "providers.Singleton[ScheduleEditor]" = one(
        f"{_USES}.changing.schedules:ScheduleEditor",
        edits=schedule_lists,
        schedules=schedules,
        views=schedule_views,
        trail=audit_trail,
    )
    report_desk = one(
        f"{_USES}.changing.schedules:ReportDesk",
        schedules=schedules,
        administrator=administrator,
        catalog=catalog,
        now=now,
    )
    replays: "providers.Singleton[Replays]" = one(
        f"{_USES}.changing.replays:Replays",
        replays=replay_store,
        records=records,
        schedules=schedules,
        names=names,
        trail=audit_trail,
    )
    applier: "providers.Singleton[JobsFileApplier]" = one(
        f"{_USES}.jobs_file.applying:JobsFileApplier", schedules, audit_trail
    )
    alert_desk: "providers.Singleton[AlertDesk]" = one(
        f"{_USES}.reading.alerts:AlertDesk",
        alerts=alerts,
        events=events,
        subscribers=subscribers,
        names=names,
        now=now,
    )
    statistics = one(f"{_USES}.reading.measures:Statistics", statistics_store, names)
    node_desk = one(f"{_USES}.changing.work:NodeDesk", nodes=nodes, trail=audit_trail)

    broker_inspection = providers.Selector(
        settings.provided.broker_kind,
        memory=one(f"{_ADAPTERS}.memory.broker:MemoryInspection"),
        amqp=one(
            f"{_RABBITMQ}.inspection:RabbitInspection",
            settings.provided.broker_url,
            **_queue_options,
        ),
    )
    explanations: "providers.Singleton[Explanations]" = one(
        f"{_USES}.explain:Explanations",
        schedules=schedules,
        records=records,
        nodes=nodes,
        replays=replay_store,
        limits=limit_desk,
        policies=policies,
        names=names,
        now=now,
    )
    queries: "providers.Singleton[Queries]" = one(
        f"{_USES}.reading.queries:Queries",
        schedules=schedules,
        records=records,
        names=names,
        nodes=nodes,
        broker=broker_inspection,
        retry_delay=settings.provided.retry_delay,
        views=schedule_views,
        now=now,
    )
    days = one(
        f"{_USES}.reading.days:Days",
        statistics=statistics_store,
        now=now,
    )
    ledger_inspection = one(f"{_SQL}.records.inspection:SqlInspection", engine.provider, clock)
    doctor = one(
        f"{_APPLICATION}.doctor.doctor:Doctor", ledger=ledger_inspection, broker=broker_inspection
    )


def check_broker(url: str) -> None:
    """Make sure that the URL of a RabbitMQ can be used.

    Raises:
        ExtraMissing: the libraries are not installed.
        CertificatesUnusable: a certificate file cannot be read, or is none.
    """
    require("rabbitmq")
    from cronhare.adapters.rabbitmq.client import Address  # noqa: PLC0415 - of the extra

    Address.parse(url).context()
