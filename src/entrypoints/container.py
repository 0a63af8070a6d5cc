"""The container: where adapters are chosen and wired; `working` adds what works."""

import random
import uuid
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from cronhare.adapters.system.clock import SystemClock
from cronhare.ports.system import NOT_TRACED, SILENT

from . import rabbitmq
from .injection import LazyPart, containers, imported_late, providers
from .node_identity import this_node, this_program
from .settings.settings import Settings
from .vitals import Vitals

with imported_late(__name__):
    from cronhare.adapters.http.client import HttpClient
    from cronhare.adapters.memory.broker import MemoryBroker, MemoryInspection, SilentBell
    from cronhare.adapters.notify.apprise import AppriseSender
    from cronhare.adapters.notify.mail import make_mailer
    from cronhare.adapters.notify.notifier import Notifier
    from cronhare.adapters.process.runner import ProcessRunner
    from cronhare.adapters.sql.access import SqlAccessStore, SqlAuditStore
    from cronhare.adapters.sql.attempts import SqlAttemptStore
    from cronhare.adapters.sql.claims.store import SqlClaimStore
    from cronhare.adapters.sql.database import SqlLedgerTime
    from cronhare.adapters.sql.dialects import open_engine
    from cronhare.adapters.sql.enqueue import SqlEnqueueStore
    from cronhare.adapters.sql.events.alerts import SqlAlertStore
    from cronhare.adapters.sql.events.outbox import SqlEventStore
    from cronhare.adapters.sql.gauges import SqlOverview
    from cronhare.adapters.sql.limits import SqlLimitStore
    from cronhare.adapters.sql.nodes import SqlNodeStore
    from cronhare.adapters.sql.records.inspection import SqlInspection
    from cronhare.adapters.sql.records.lists import SqlNames, SqlTimelineStore
    from cronhare.adapters.sql.records.replays import SqlReplayStore
    from cronhare.adapters.sql.records.statistics import SqlStatistics, SqlTimingStore
    from cronhare.adapters.sql.records.store import SqlRecords
    from cronhare.adapters.sql.schedule_lists import SqlScheduleEdits, SqlScheduleLists
    from cronhare.adapters.sql.schedules import SqlScheduleStore
    from cronhare.adapters.system.clock import HostClock, LedgerClock
    from cronhare.adapters.system.fifo_bell import FifoBell
    from cronhare.adapters.system.host import release
    from cronhare.application.administration.audit import AuditTrail
    from cronhare.application.administration.changing.access import Admission, TokenDesk
    from cronhare.application.administration.changing.enqueue import Enqueuer, TaskDesk
    from cronhare.application.administration.changing.replays import Backfills, Replays
    from cronhare.application.administration.changing.runs import Administrator
    from cronhare.application.administration.changing.schedules import (
        ReportDesk,
        ScheduleDesk,
        ScheduleEditor,
    )
    from cronhare.application.administration.changing.work import NodeDesk, RetryLimitDesk
    from cronhare.application.administration.explain import Explanations
    from cronhare.application.administration.jobs_file.applying import JobsFileApplier
    from cronhare.application.administration.jobs_file.difference import FileContent
    from cronhare.application.administration.jobs_file.notes import DraftNotes
    from cronhare.application.administration.names import Names
    from cronhare.application.administration.reading.alerts import AlertDesk, Outbox
    from cronhare.application.administration.reading.limits import LimitViews
    from cronhare.application.administration.reading.measures import (
        AuditQueries,
        Metrics,
        Statistics,
    )
    from cronhare.application.administration.reading.now import Days, Overview
    from cronhare.application.administration.reading.output import OutputPages
    from cronhare.application.administration.reading.queries import Queries
    from cronhare.application.administration.reading.schedules import (
        Calendars,
        RunHistory,
        ScheduleLists,
        ScheduleViews,
    )
    from cronhare.application.administration.story import Stories
    from cronhare.application.bell import BackgroundBell, SendingBell
    from cronhare.application.doctor.doctor import Doctor
    from cronhare.domain.events.targets import Subscribers, Subscriptions
    from cronhare.domain.lifecycle.retry_limits import RetryPolicies
    from cronhare.domain.messages import Signer
    from cronhare.domain.schedules.catalog import Catalog

with imported_late(__name__, optional=True):
    from cronhare.adapters.prometheus.metrics import PrometheusMetrics
    from cronhare.adapters.tracing import open_tracing

    from .probes import make_registry


def _lazy(part: "providers.Provider[Any]") -> "providers.Factory[LazyPart]":
    return providers.Factory(LazyPart, part.provider)


class Container(containers.DeclarativeContainer):
    """The parts of one process. The URLs choose the database, and memory or RabbitMQ.

    Several threads ask for them: of each there is one, whoever was first.
    """

    settings = providers.Dependency(instance_of=Settings)
    tasks = providers.Object(())
    #: Jobs file and app that the tasks are of, as they were read last; where people look at them.
    jobs_files: "providers.Provider[Sequence[FileContent]]" = providers.Object(())
    #: Their versions, where tasks of them are run.
    file_versions: "providers.Provider[Any]" = providers.Object(())
    subscriptions = providers.ThreadSafeSingleton(Subscriptions)
    #: Those of an app beside a jobs file.
    more_subscriptions = providers.ThreadSafeSingleton(Subscriptions)
    queues = providers.Object(())
    #: The weights of those of the queues that have another than 1.
    weights = providers.Object(MappingProxyType(dict[str, int]()))

    ourselves = providers.ThreadSafeSingleton(this_node)
    node = providers.ThreadSafeSingleton(str, ourselves)
    clock = providers.ThreadSafeSingleton(SystemClock)
    random_fraction = providers.Object(random.random)
    uuid4 = providers.Object(uuid.uuid4)

    signer = providers.ThreadSafeSingleton(Signer, settings.provided.message_keys)

    engine = providers.ThreadSafeSingleton(open_engine, settings.provided.database_url)
    ledger_time = providers.ThreadSafeSingleton(SqlLedgerTime, engine, clock)
    claims = providers.ThreadSafeSingleton(
        SqlClaimStore,
        engine,
        clock,
        judge=providers.Callable(release),
        late=settings.provided.catch_up,
    )
    attempts = providers.ThreadSafeSingleton(SqlAttemptStore, engine, clock)
    schedules = providers.ThreadSafeSingleton(SqlScheduleStore, engine, clock)
    schedule_edits = providers.ThreadSafeSingleton(SqlScheduleEdits, engine, clock)
    schedule_lists = providers.ThreadSafeSingleton(SqlScheduleLists, engine, clock)
    records = providers.ThreadSafeSingleton(SqlRecords, engine, clock)
    nodes = providers.ThreadSafeSingleton(SqlNodeStore, engine, clock)
    limits = providers.ThreadSafeSingleton(SqlLimitStore, engine, clock)
    events = providers.ThreadSafeSingleton(SqlEventStore, engine, clock)
    replay_store = providers.ThreadSafeSingleton(SqlReplayStore, engine, clock)

    ledger_clock = providers.Selector(
        settings.provided.ledger_kind,
        file=providers.ThreadSafeSingleton(HostClock, clock),
        server=providers.ThreadSafeSingleton(LedgerClock, ledger_time.provided.now, clock),
    )

    audit_store = providers.ThreadSafeSingleton(SqlAuditStore, engine, clock)
    audit_trail = providers.ThreadSafeSingleton(
        AuditTrail,
        entries=audit_store,
        stopwatch=clock.provided.monotonic,
        now=ledger_time.provided.now,
    )
    limit_views = providers.ThreadSafeSingleton(
        LimitViews, limits=limits, now=ledger_time.provided.now
    )
    limit_desk = providers.ThreadSafeSingleton(RetryLimitDesk, limits=limits, trail=audit_trail)
    statistics_store = providers.ThreadSafeSingleton(SqlStatistics, engine, clock)
    metrics = providers.ThreadSafeSingleton(
        Metrics,
        statistics=statistics_store,
        records=records,
        nodes=nodes,
        limits=limit_views,
        now=ledger_time.provided.now,
        schedules=settings.provided.metrics_schedules,
    )
    vitals = providers.ThreadSafeSingleton(Vitals)
    registry = providers.ThreadSafeSingleton(make_registry, vitals, metrics.provided.measure)
    counting = providers.Selector(
        settings.provided.counting_kind,
        silent=providers.Object(SILENT),
        prometheus=providers.ThreadSafeSingleton(
            PrometheusMetrics, registry, now=ledger_clock.provided.now
        ),
    )
    tracing = providers.Selector(
        settings.provided.tracing_kind,
        off=providers.Object(NOT_TRACED),
        opentelemetry=providers.ThreadSafeSingleton(open_tracing, node),
    )

    _topology = MappingProxyType({"retry_delay": settings.provided.retry_delay, "queues": queues})
    _queue_options = MappingProxyType(
        {
            "queue_type": settings.provided.queue_type,
            "deduplication": settings.provided.message_deduplication,
        }
    )
    memory_broker = providers.ThreadSafeSingleton(MemoryBroker, clock, **_topology)
    pika_broker = providers.ThreadSafeSingleton(
        rabbitmq.pika_broker, settings.provided.broker_url, **_topology, **_queue_options
    )
    aio_pika_broker = providers.Factory(
        rabbitmq.aio_pika_broker, settings.provided.broker_url, **_topology, **_queue_options
    )
    broker = providers.Selector(
        settings.provided.broker_kind, memory=memory_broker, amqp=pika_broker
    )
    connection = providers.Selector(
        settings.provided.broker_kind,
        memory=memory_broker.provided.connect.call(),
        amqp=aio_pika_broker,
    )
    catalog = providers.ThreadSafeSingleton(Catalog, tasks)
    #: By what people may call tasks: those of this process, unless it runs none.
    registered: "providers.Provider[Any]" = _lazy(catalog)
    names = providers.ThreadSafeSingleton(
        Names,
        names=_lazy(providers.ThreadSafeSingleton(SqlNames, engine, clock)),
        schedules=_lazy(schedules),
        nodes=_lazy(nodes),
        tasks=registered,
        now=ledger_time.provided.now,
    )
    draft_notes = providers.ThreadSafeSingleton(
        DraftNotes, nodes=_lazy(nodes), tasks=registered, now=ledger_time.provided.now
    )
    policies = providers.ThreadSafeSingleton(
        RetryPolicies,
        settings.provided.policy,
        catalog,
        limits=settings.provided.limits,
        crashes=settings.provided.crash_policy,
        late=settings.provided.catch_up,
    )
    subscribers = providers.ThreadSafeSingleton(Subscribers, subscriptions)
    more_subscribers = providers.ThreadSafeSingleton(Subscribers, more_subscriptions)
    http = providers.ThreadSafeSingleton(
        HttpClient, settings.provided.allowed_hosts, agent=providers.Callable(this_program)
    )
    mailer = providers.ThreadSafeSingleton(
        make_mailer,
        settings.provided.mail_server,
        sender=settings.provided.smtp_from,
        web_hosts=settings.provided.web_hosts,
    )
    #: Commands of targets run apart from the tasks: the caller closes it.
    notifier = providers.Factory(
        Notifier,
        http=http,
        runner=providers.Factory(ProcessRunner),
        mailer=mailer,
        apprise=providers.Factory(AppriseSender),
        now=clock.provided.now,
    )
    alerts = providers.ThreadSafeSingleton(SqlAlertStore, engine, clock)
    #: What a person asks for is heard by the workers, or by the `up` that has the ledger's file.
    sending_bells = providers.Factory(
        SendingBell,
        open_broker=providers.Factory(rabbitmq.pika_sender, settings.provided.broker_url).provider,
        nodes=nodes,
        signer=signer,
        foreign_queues=settings.provided.foreign_queues,
    )
    fifo_bell = providers.ThreadSafeSingleton(FifoBell, settings.provided.ledger.path)
    no_bell = providers.ThreadSafeSingleton(SilentBell)
    bell = providers.Selector(
        settings.provided.bell_kind,
        broker=providers.ThreadSafeSingleton(sending_bells),
        fifo=fifo_bell,
        none=no_bell,
    )
    #: What a program asks for, all day: its bell keeps the connection, and nobody waits for it.
    enqueue_store = providers.ThreadSafeSingleton(SqlEnqueueStore, engine, clock)
    lasting_bell = providers.Selector(
        settings.provided.bell_kind,
        broker=providers.ThreadSafeSingleton(sending_bells, lasts=True),
        fifo=fifo_bell,
        none=no_bell,
    )
    background_bell = providers.ThreadSafeSingleton(
        BackgroundBell,
        lasting_bell,
        now=ledger_clock.provided.now,
        find=enqueue_store.provided.committed,
    )
    enqueuer = providers.ThreadSafeSingleton(
        Enqueuer,
        store=enqueue_store,
        bell=background_bell,
        node=node,
        now=ledger_clock.provided.now,
        measure=ledger_clock.provided.measure,
    )
    task_desk = providers.ThreadSafeSingleton(
        TaskDesk,
        enqueuer=enqueuer,
        records=records,
        trail=providers.ThreadSafeSingleton(
            AuditTrail,
            entries=audit_store,
            stopwatch=clock.provided.monotonic,
            now=ledger_clock.provided.now,
        ),
    )
    audit = providers.ThreadSafeSingleton(AuditQueries, audit_store)
    access = providers.ThreadSafeSingleton(SqlAccessStore, engine, clock)
    token_desk = providers.ThreadSafeSingleton(TokenDesk, access=access, trail=audit_trail)
    admission = providers.ThreadSafeSingleton(Admission, access=access, trail=audit_trail)
    administrator = providers.ThreadSafeSingleton(
        Administrator,
        schedules=schedules,
        records=records,
        names=names,
        node=node,
        uuid=uuid4,
        policy=settings.provided.policy,
        bell=bell,
        trail=audit_trail,
    )
    schedule_desk = providers.ThreadSafeSingleton(ScheduleDesk, schedules, audit_trail)
    schedule_views = providers.ThreadSafeSingleton(
        ScheduleViews,
        records=_lazy(records),
        names=_lazy(names),
        policy=settings.provided.policy,
        now=ledger_time.provided.now,
    )
    schedule_editor = providers.ThreadSafeSingleton(
        ScheduleEditor,
        edits=schedule_edits,
        schedules=schedules,
        views=schedule_views,
        trail=audit_trail,
    )
    calendars = providers.ThreadSafeSingleton(Calendars, schedules)
    output_pages = providers.ThreadSafeSingleton(OutputPages, records)
    report_desk = providers.ThreadSafeSingleton(
        ReportDesk,
        schedules=schedules,
        administrator=administrator,
        catalog=catalog,
        now=ledger_time.provided.now,
    )
    replays = providers.ThreadSafeSingleton(
        Replays, replays=replay_store, records=records, names=names, trail=audit_trail
    )
    backfills = providers.ThreadSafeSingleton(
        Backfills, replays=replay_store, schedules=schedules, trail=audit_trail
    )
    applier = providers.ThreadSafeSingleton(JobsFileApplier, schedules, audit_trail)
    outbox = providers.ThreadSafeSingleton(Outbox, events, _lazy(names))
    alert_desk = providers.ThreadSafeSingleton(
        AlertDesk,
        alerts=alerts,
        events=events,
        subscribers=subscribers,
        names=_lazy(names),
        now=ledger_time.provided.now,
    )
    statistics = providers.ThreadSafeSingleton(Statistics, statistics_store, names)
    stories = providers.ThreadSafeSingleton(
        Stories,
        records=records,
        names=_lazy(names),
        policies=policies,
        now=ledger_time.provided.now,
    )
    node_desk = providers.ThreadSafeSingleton(NodeDesk, nodes=nodes, trail=audit_trail)
    days = providers.ThreadSafeSingleton(
        Days,
        timings=providers.ThreadSafeSingleton(SqlTimingStore, engine, clock),
        timeline=providers.ThreadSafeSingleton(SqlTimelineStore, engine, clock),
        now=ledger_time.provided.now,
    )

    broker_inspection = providers.Selector(
        settings.provided.broker_kind,
        memory=providers.ThreadSafeSingleton(MemoryInspection),
        amqp=providers.ThreadSafeSingleton(
            rabbitmq.inspection, settings.provided.broker_url, **_queue_options
        ),
    )
    explanations = providers.ThreadSafeSingleton(
        Explanations,
        schedules=schedules,
        records=records,
        nodes=nodes,
        replays=replay_store,
        limits=limit_views,
        names=_lazy(names),
        now=ledger_time.provided.now,
    )
    queries = providers.ThreadSafeSingleton(
        Queries,
        schedules=_lazy(schedules),
        records=_lazy(records),
        names=_lazy(names),
        nodes=_lazy(nodes),
        broker=broker_inspection,
        retry_delay=settings.provided.retry_delay,
        views=schedule_views,
        now=ledger_time.provided.now,
    )
    schedule_pages = providers.ThreadSafeSingleton(
        ScheduleLists,
        lists=schedule_lists,
        names=_lazy(names),
        views=schedule_views,
        now=ledger_time.provided.now,
    )
    overview_store = providers.ThreadSafeSingleton(SqlOverview, engine, clock)
    run_history = providers.ThreadSafeSingleton(
        RunHistory, schedules=schedules, overview=overview_store, now=ledger_time.provided.now
    )
    overview = providers.ThreadSafeSingleton(
        Overview,
        overview=overview_store,
        records=records,
        queries=queries,
        now=ledger_time.provided.now,
    )
    ledger_inspection = providers.ThreadSafeSingleton(SqlInspection, engine.provider, clock)
    doctor = providers.ThreadSafeSingleton(
        Doctor, ledger=ledger_inspection, broker=broker_inspection
    )
