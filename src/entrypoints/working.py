"""The container of a process that works: a scheduler, a worker, or both in one."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from cronhare.adapters.http.task_runner import HttpTaskRunner
from cronhare.adapters.notify.reminders import ReminderRunner
from cronhare.adapters.process.apps import PythonRunner
from cronhare.adapters.process.runner import ProcessRunner
from cronhare.adapters.sql.nodes import SqlRedeliveryStore
from cronhare.adapters.system.host import this_boot
from cronhare.application.events.alerting import AlertWatch, LedgerJudge
from cronhare.application.events.announce import Announcer
from cronhare.application.events.relay import OutboxRelay
from cronhare.application.heartbeat import Heartbeat
from cronhare.application.publish import ExecutionPublisher
from cronhare.application.scheduling.chores import BackgroundExecutor, Housekeeper
from cronhare.application.scheduling.dispatch import Dispatcher
from cronhare.application.scheduling.reconcile import Reconciler
from cronhare.application.scheduling.replays import Replayer
from cronhare.application.worker.attempt import TaskRunners
from cronhare.application.worker.delivery import DeliveryHandler
from cronhare.application.worker.foreign import FailedMonitor
from cronhare.application.worker.leases import LeaseKeeper, OutputKeeper
from cronhare.application.worker.ledger import WorkerLedger
from cronhare.application.worker.standalone import StandaloneFinder, StandaloneKeeper

from .container import Container, providers
from .node_identity import is_alive, this_holder, this_version


def _threads(name: str, most: int) -> providers.Singleton[ThreadPoolExecutor]:
    return providers.ThreadSafeSingleton(
        ThreadPoolExecutor, max_workers=most, thread_name_prefix=name
    )


class WorkingContainer(Container):
    """The parts of a scheduler and of a worker, beside those of every process."""

    boot = providers.Callable(this_boot)
    functions = providers.ThreadSafeSingleton(PythonRunner)
    runner = providers.ThreadSafeSingleton(
        TaskRunners,
        providers.ThreadSafeSingleton(ProcessRunner),
        functions,
        providers.ThreadSafeSingleton(HttpTaskRunner, Container.http),
        providers.ThreadSafeSingleton(ReminderRunner, Container.notifier, Container.subscribers),
    )
    ledger_threads = _threads("ledger", 2)
    #: For what may wait for locks of other sessions: starts, ends, adoptions.
    waiting_threads = _threads("waiting", 3)

    housekeeper = providers.ThreadSafeSingleton(
        Housekeeper,
        attempts=Container.attempts,
        records=Container.records,
        node=Container.node,
        clock=Container.clock,
    )
    chores_thread = _threads("chores", 1)
    background = providers.ThreadSafeSingleton(
        BackgroundExecutor, housekeeper.provided.run, executor=chores_thread
    )
    publisher = providers.ThreadSafeSingleton(
        ExecutionPublisher,
        broker=Container.broker,
        claims=Container.claims,
        run_system_task=background.provided.begin,
        signer=Container.signer,
        in_memory=Container.settings.provided.in_memory,
        foreign_queues=Container.settings.provided.foreign_queues,
        metrics=Container.counting,
        tracing=Container.tracing,
    )
    publishing_threads = _threads("publishing", 2)  # see `PublishPipeline`
    dispatcher = providers.ThreadSafeSingleton(
        Dispatcher,
        claims=Container.claims,
        publisher=publisher,
        executor=publishing_threads,
        node=Container.node,
        refresh=Container.settings.provided.refresh,
        metrics=Container.counting,
        tracing=Container.tracing,
    )
    reconciler = providers.ThreadSafeSingleton(
        Reconciler,
        claims=Container.claims,
        attempts=Container.attempts,
        publisher=publisher,
        policies=Container.policies,
        random_fraction=Container.random_fraction,
        lease=Container.settings.provided.lease,
        metrics=Container.counting,
    )
    replayer = providers.ThreadSafeSingleton(
        Replayer,
        replays=Container.replay_store,
        publisher=publisher,
        node=Container.node,
        policy=Container.settings.provided.policy,
        random_fraction=Container.random_fraction,
        now=Container.ledger_time.provided.now,
    )
    #: The caller adds `role`, `queues`, and what is known of its tasks.
    heartbeat = providers.Factory(
        Heartbeat,
        nodes=Container.nodes,
        clock=Container.ledger_clock,
        name=Container.node,
        host=Container.ourselves.provided.host,
        version=providers.Callable(this_version),
    )
    # Made per event loop: the caller adds `stop`, `broker`, `keeper`, `read`, `places`.
    lease_keeper = providers.Factory(
        LeaseKeeper,
        attempts=Container.attempts,
        clock=Container.ledger_clock,
        node=Container.node,
        lease=Container.settings.provided.lease,
        metrics=Container.counting,
    )
    output_keeper = providers.Factory(
        OutputKeeper, attempts=Container.attempts, clock=Container.ledger_clock, node=Container.node
    )
    worker_ledger = providers.Factory(
        WorkerLedger,
        node=Container.node,
        attempts=Container.attempts,
        claims=Container.claims,
        clock=Container.ledger_clock,
        lease=Container.settings.provided.lease,
        executor=ledger_threads,
        locking_executor=waiting_threads,
    )
    worker = providers.Factory(
        DeliveryHandler,
        ledger=worker_ledger,
        runner=runner,
        catalog=Container.catalog,
        policies=Container.policies,
        random_fraction=Container.random_fraction,
        uuid=Container.uuid4,
        retry_delay=Container.settings.provided.retry_delay,
        signer=Container.signer,
        redeliveries=providers.ThreadSafeSingleton(
            SqlRedeliveryStore, Container.engine, Container.clock
        ),
        attempts_of=Container.records.provided.attempts,
        grace=Container.settings.provided.shutdown_grace,
        us=providers.Callable(this_holder, Container.ourselves),
        lives=providers.Object(is_alive),
        crash_policy=Container.settings.provided.crash_policy,
        accepts_foreign=Container.settings.provided.accepts_foreign,
        in_memory=Container.settings.provided.in_memory,
        foreign_queues=Container.settings.provided.foreign_queues,
        metrics=Container.counting,
        tracing=Container.tracing,
    )
    monitor = providers.Factory(
        FailedMonitor,
        ledger=worker_ledger,
        records=Container.records,
        signer=Container.signer,
        accepts_foreign=Container.settings.provided.accepts_foreign,
    )
    #: Of each thread that judges one.
    ledger_judge = providers.Factory(
        LedgerJudge,
        alerts=Container.alerts,
        nodes=Container.nodes,
        policy=Container.settings.provided.alert_policy,
        now=Container.ledger_time.provided.now,
    )
    announcers = providers.Factory(
        Announcer,
        store=Container.events,
        alerts=providers.Factory(
            AlertWatch,
            alerts=Container.alerts,
            events=Container.events,
            judge=ledger_judge,
            now=Container.ledger_time.provided.now,
        ),
        clock=Container.ledger_clock,
    )
    announcer = providers.ThreadSafeSingleton(announcers, subscribers=Container.subscribers)
    #: That of an app beside a jobs file.
    more_announcer = providers.ThreadSafeSingleton(
        announcers, subscribers=Container.more_subscribers
    )
    events_thread = _threads("events", 1)
    outbox_relay = providers.Factory(
        OutboxRelay,
        store=Container.events,
        notifier=Container.notifier,
        subscribers=Container.subscribers,
        clock=Container.ledger_clock,
        node=Container.node,
        executor=events_thread,
        has_mail=providers.Callable(bool, Container.settings.provided.mail_server),
    )
    #: The caller adds `names`.
    standalone = providers.Factory(
        StandaloneKeeper,
        schedules=Container.schedules,
        records=Container.records,
        node=Container.node,
        now=Container.ledger_time.provided.now,
    )
    #: The caller adds `serve` and `leave`.
    standalone_finder = providers.Factory(
        StandaloneFinder,
        schedules=Container.schedules,
        records=Container.records,
        node=Container.node,
        catalog=Container.catalog,
        now=Container.ledger_time.provided.now,
    )


def announcers_of(container: WorkingContainer) -> Sequence[Announcer]:
    """Give that of the jobs file, or the app, of a process; and that of an app beside a file."""
    first, more = container.announcer(), container.more_announcer()
    return [first] if more.subscribers.current.source is None else [first, more]
