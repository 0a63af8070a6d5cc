"""Every metric: its name, what it means, its labels. Alert rules and dashboard use these alone.

docs/metrics.md is made of this.
"""

import enum
from collections.abc import Sequence
from typing import Final, TypeVar

import attrs
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

Family = TypeVar("Family", CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily)


class Kind(enum.StrEnum):
    """The types of Prometheus that are used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Source(enum.StrEnum):
    """Where a metric is counted; of the ledger's, each process says the same."""

    PROCESS = "every process, of itself"
    SCHEDULER = "scheduler and up, of themselves"
    WORKER = "worker and up, of themselves"
    LEDGER = "the ledger, asked by scheduler, up, web and `cronhare metrics`"


@attrs.frozen(kw_only=True)
class Described:
    """One metric; *name* is the exposed one, with its `_total`."""

    name: str
    kind: Kind
    source: Source
    help: str
    labels: tuple[str, ...] = ()

    @property
    def family_name(self) -> str:
        """The name as the client takes it: it appends `_total` to a counter's."""
        return self.name.removesuffix("_total") if self.kind is Kind.COUNTER else self.name

    def family(self, kind: type[Family]) -> Family:
        """Make an empty family."""
        return kind(self.family_name, self.help, labels=self.labels)

    @property
    def series(self) -> Sequence[str]:
        """The names under which Prometheus has it."""
        if self.kind is Kind.HISTOGRAM:
            return [f"{self.name}{suffix}" for suffix in ("_bucket", "_count", "_sum")]
        return [self.name]


_found: list[Described] = []


def _metric(name: str, kind: Kind, source: Source, help_: str, *labels: str) -> Described:
    described = Described(name=name, kind=kind, source=source, help=help_, labels=labels)
    _found.append(described)
    return described


def _counter(name: str, source: Source, help_: str, *labels: str) -> Described:
    return _metric(name, Kind.COUNTER, source, help_, *labels)


def _gauge(name: str, source: Source, help_: str, *labels: str) -> Described:
    return _metric(name, Kind.GAUGE, source, help_, *labels)


def _histogram(name: str, source: Source, help_: str, *labels: str) -> Described:
    return _metric(name, Kind.HISTOGRAM, source, help_, *labels)


# The process.
BUILD = _gauge("cronhare_build_info", Source.PROCESS, "The release that runs, always 1", "version")
CONNECTION_UP = _gauge(
    "cronhare_connection_up",
    Source.PROCESS,
    "Whether what /readyz needs was proven within 30 s: ledger, broker, consumer",
    "connection",
)
LAST_TURN = _gauge(
    "cronhare_loop_last_turn_timestamp_seconds",
    Source.PROCESS,
    "When the last turn of a loop began",
    "loop",
)
CLOCK_OFFSET = _gauge(
    "cronhare_clock_offset_seconds",
    Source.PROCESS,
    "How far this host's clock is ahead of the ledger's",
)

# The way from a due instant to the start of its task.
LAST_TICK = _gauge(
    "cronhare_last_tick_timestamp_seconds",
    Source.SCHEDULER,
    "When a scheduler last looked for what is due, and the ledger answered",
)
LATENESS = _histogram(
    "cronhare_lateness_seconds",
    Source.PROCESS,
    "How long after its due instant a first attempt was claimed, published and started",
    "stage",
)
CLAIMED = _counter(
    "cronhare_executions_claimed_total", Source.SCHEDULER, "Executions claimed when they were due"
)
SKIPPED = _counter(
    "cronhare_instants_skipped_total",
    Source.SCHEDULER,
    "Due instants that were recorded as skipped, by the kind of reason",
    "reason",
)
PUBLISHED = _counter(
    "cronhare_messages_published_total",
    Source.SCHEDULER,
    "Messages published, by what is known of them: confirmed, returned, refused, unknown",
    "outcome",
)
RESENT = _counter(
    "cronhare_executions_resent_total",
    Source.SCHEDULER,
    "Executions whose message was sent again, as it was overdue",
)
LOST = _counter(
    "cronhare_attempts_lost_total",
    Source.PROCESS,
    "Attempts given up for lost: their worker vanished, or its lease lapsed",
)

# The worker.
RUNNING = _gauge("cronhare_worker_running", Source.WORKER, "Deliveries being handled now")
SLOTS = _gauge("cronhare_worker_slots", Source.WORKER, "Deliveries that may be handled at a time")
STARTED = _counter(
    "cronhare_attempts_started_total", Source.WORKER, "Attempts that the ledger let begin"
)
ATTEMPTS = _counter(
    "cronhare_attempts_total",
    Source.WORKER,
    "Attempts that have ended, by how they ended",
    "outcome",
)
DURATION = _histogram(
    "cronhare_attempt_duration_seconds", Source.WORKER, "How long attempts took", "outcome"
)
EXECUTIONS = _counter(
    "cronhare_executions_total",
    Source.WORKER,
    "Ends of attempts, by the state that the ledger recorded: retrying is no end of the execution",
    "state",
)
FENCED = _counter(
    "cronhare_fence_refusals_total",
    Source.WORKER,
    "Deliveries that were not started again, since somebody else decided; copies are common",
)
SUPERSEDED = _counter(
    "cronhare_ends_superseded_total",
    Source.WORKER,
    "Ends that do not count, since the attempt was ended in the ledger before",
)
LEASES_LOST = _counter(
    "cronhare_leases_lost_total",
    Source.WORKER,
    "Running attempts that were stopped, since their lease could not be kept",
)
QUARANTINED = _counter(
    "cronhare_deliveries_quarantined_total",
    Source.WORKER,
    "Deliveries put into quarantine: unreadable, unknown, or poison",
)

# The ledger.
MEASURED_AT = _gauge(
    "cronhare_ledger_measured_timestamp_seconds",
    Source.LEDGER,
    "When the ledger was counted for this answer",
)
DEAD_LETTERS = _counter(
    "job_queue_dlq_jobs_total",
    Source.LEDGER,
    "Jobs moved to the dead letter queue that the archive has, resolved or not",
    "source_queue",
    "job_name",
)
DEPTH = _gauge(
    "job_queue_dlq_depth",
    Source.LEDGER,
    "Jobs in the dead letter queue: failures that are unresolved",
)
UNFINISHED = _gauge(
    "cronhare_executions_unfinished",
    Source.LEDGER,
    "Executions that have not ended",
    "queue",
    "state",
)
UNHEARD = _counter(
    "app_schedule_job_no_listener_total",
    Source.LEDGER,
    "Events that were completed though no task listens to their topic",
    "topic",
)
OLDEST_WAITING = _gauge(
    "cronhare_oldest_waiting_seconds",
    Source.LEDGER,
    "For how long the oldest execution has been due that waits for its first start",
    "queue",
)
UNRESOLVED = _gauge(
    "cronhare_failures_unresolved",
    Source.LEDGER,
    "Failures in the archive that nobody has resolved: failed, quarantined",
    "state",
)
NODES = _gauge(
    "cronhare_nodes",
    Source.LEDGER,
    "Processes that reported themselves within the last hour, and whether in the last 45 s too",
    "role",
    "state",
)
QUEUE_WORKERS = _gauge(
    "cronhare_queue_workers",
    Source.LEDGER,
    "Processes that report themselves and serve a queue: not those drained, or cut off from the "
    "broker",
    "queue",
)
BUDGET_LIMIT = _gauge(
    "cronhare_retry_budget_limit", Source.LEDGER, "Retries that a window grants", "queue"
)
BUDGET_LEFT = _gauge(
    "cronhare_retry_budget_remaining",
    Source.LEDGER,
    "Retries of a queue that can be granted now",
    "queue",
)
BREAKER = _gauge(
    "cronhare_breaker_open",
    Source.LEDGER,
    "Whether the circuit breaker of a task is open, or half open",
    "task",
)
LAST_SUCCESS = _gauge(
    "cronhare_schedule_last_success_timestamp_seconds",
    Source.LEDGER,
    "When a run of the schedule last succeeded; 0 if none has that the ledger keeps",
    "schedule",
)
LAST_FAILURE = _gauge(
    "cronhare_schedule_last_failure_timestamp_seconds",
    Source.LEDGER,
    "When a run of the schedule last failed for good; 0 if none has that the ledger keeps",
    "schedule",
)
LEFT_OUT = _gauge(
    "cronhare_schedules_without_series",
    Source.LEDGER,
    "Enabled schedules beyond CRON_METRICS_SCHEDULES, which have no series of their own",
)
ROWS = _gauge(
    "cronhare_ledger_rows",
    Source.LEDGER,
    "Rows of a table of the ledger, at most: the span of their ids",
    "table",
)

CATALOGUE: Final = tuple(_found)
