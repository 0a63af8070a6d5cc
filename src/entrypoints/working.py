"""The container of a process that works: a scheduler, a worker, or both in one."""

import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

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
from cronhare.application.scheduling.chores import BackgroundExecutor, Housekeeper, Replayer
from cronhare.application.scheduling.dispatch import Dispatcher
from cronhare.application.scheduling.reconcile import Reconciler
from cronhare.application.worker.attempt import TaskRunners
from cronhare.application.worker.delivery import DeliveryHandler
from cronhare.application.worker.foreign import FailedMonitor
from cronhare.application.worker.leases import LeaseKeeper, OutputKeeper
from cronhare.application.worker.ledger import WorkerLedger
from cronhare.application.worker.standalone import StandaloneFinder, StandaloneKeeper

from .container import Container, providers
from .node_identity import is_alive, this_holder, this_version

_SETTINGS = Container.settings.provided

#: What parts call by these names: each is given what it names, unless it is given another.
_USUAL: Final[dict[str, providers.Provider[Any]]] = {
    "accepts_foreign": _SETTINGS.accepts_foreign,
    "attempts": Container.attempts,
    "catalog": Container.catalog,
    "claims": Container.claims,
    "clock": Container.ledger_clock,
    "crash_policy": _SETTINGS.crash_policy,
    "foreign_queues": _SETTINGS.foreign_queues,
    "in_memory": _SETTINGS.in_memory,
    "lease": _SETTINGS.lease,
    "metrics": Container.counting,
    "node": Container.node,
    "nodes": Container.nodes,
    "now": Container.now,
    "policies": Container.policies,
    "random_fraction": Container.random_fraction,
    "records": Container.records,
    "schedules": Container.schedules,
    "signer": Container.signer,
    "tracing": Container.tracing,
}


def _once(kind: Callable[..., Any], *arguments: Any, **others: Any) -> providers.Singleton[Any]:  # noqa: ANN401
    return providers.ThreadSafeSingleton(kind, *arguments, **_usual(kind) | others)


def _each(kind: Callable[..., Any], **others: Any) -> providers.Factory[Any]:  # noqa: ANN401
    return providers.Factory(kind, **_usual(kind) | others)


def _usual(kind: Callable[..., Any]) -> dict[str, providers.Provider[Any]]:
    return {name: _USUAL[name] for name in inspect.signature(kind).parameters if name in _USUAL}


def _threads(name: str, most: int) -> providers.Singleton[ThreadPoolExecutor]:
    return _once(ThreadPoolExecutor, max_workers=most, thread_name_prefix=name)


class WorkingContainer(Container):
    """The parts of a scheduler and of a worker, beside those of every process."""

    boot = providers.Callable(this_boot)
    functions = _once(PythonRunner)
    runner = providers.ThreadSafeSingleton(
        TaskRunners,
        _once(ProcessRunner),
        functions,
        providers.ThreadSafeSingleton(HttpTaskRunner, Container.http),
        providers.ThreadSafeSingleton(ReminderRunner, Container.notifier, Container.subscribers),
    )
    ledger_threads = _threads("ledger", 2)
    #: For what may wait for locks of other sessions: starts, ends, adoptions.
    waiting_threads = _threads("waiting", 3)

    housekeeper = _once(Housekeeper, clock=Container.clock)
    chores_thread = _threads("chores", 1)
    background = _once(BackgroundExecutor, housekeeper.provided.run, executor=chores_thread)
    publisher = _once(
        ExecutionPublisher, broker=Container.broker, run_system_task=background.provided.begin
    )
    publishing_threads = _threads("publishing", 2)  # see `PublishPipeline`
    dispatcher = _once(
        Dispatcher, publisher=publisher, executor=publishing_threads, refresh=_SETTINGS.refresh
    )
    reconciler = _once(Reconciler, publisher=publisher)
    replayer = _once(
        Replayer, replays=Container.replay_store, publisher=publisher, policy=_SETTINGS.policy
    )
    #: The caller adds `role`, `queues`, and what is known of its tasks.
    heartbeat = _each(
        Heartbeat,
        name=Container.node,
        host=Container.ourselves.provided.host,
        version=providers.Callable(this_version),
    )
    # Made per event loop: the caller adds `stop`, `broker`, `keeper`, `read`, `places`.
    lease_keeper = _each(LeaseKeeper)
    output_keeper = _each(OutputKeeper)
    worker_ledger = _each(WorkerLedger, executor=ledger_threads, locking_executor=waiting_threads)
    worker = _each(
        DeliveryHandler,
        ledger=worker_ledger,
        runner=runner,
        uuid=Container.uuid4,
        retry_delay=_SETTINGS.retry_delay,
        redeliveries=providers.ThreadSafeSingleton(
            SqlRedeliveryStore, Container.engine, Container.clock
        ),
        attempts_of=Container.records.provided.attempts,
        grace=_SETTINGS.shutdown_grace,
        us=providers.Callable(this_holder, Container.ourselves),
        lives=providers.Object(is_alive),
    )
    monitor = _each(FailedMonitor, ledger=worker_ledger)
    #: Of each thread that judges one.
    ledger_judge = _each(LedgerJudge, alerts=Container.alerts, policy=_SETTINGS.alert_policy)
    announcers = _each(
        Announcer,
        store=Container.events,
        alerts=_each(
            AlertWatch, alerts=Container.alerts, events=Container.events, judge=ledger_judge
        ),
    )
    announcer = providers.ThreadSafeSingleton(announcers, subscribers=Container.subscribers)
    #: That of an app beside a jobs file.
    more_announcer = providers.ThreadSafeSingleton(
        announcers, subscribers=Container.more_subscribers
    )
    events_thread = _threads("events", 1)
    outbox_relay = _each(
        OutboxRelay,
        store=Container.events,
        notifier=Container.notifier,
        subscribers=Container.subscribers,
        executor=events_thread,
        has_mail=providers.Callable(bool, _SETTINGS.mail_server),
    )
    #: The caller adds `names`.
    standalone = _each(StandaloneKeeper)
    #: The caller adds `serve` and `leave`.
    standalone_finder = _each(StandaloneFinder)


def announcers_of(container: WorkingContainer) -> Sequence[Announcer]:
    """Give that of the jobs file, or the app, of a process; and that of an app beside a file."""
    first, more = container.announcer(), container.more_announcer()
    return [first] if more.subscribers.current.source is None else [first, more]
