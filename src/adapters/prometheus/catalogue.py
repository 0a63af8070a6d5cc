"""Every metric: its name, what it means, its labels. Alert rules and dashboard use these alone.

docs/metrics.md is made of this.
"""

import enum
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import attrs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cronhare.application.administration.views.work import Series


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


@attrs.frozen(kw_only=True, eq=False)
class Described:
    """One metric; *name* is the exposed one, with its `_total`."""

    name: str
    kind: Kind
    source: Source
    help: str
    labels: tuple[str, ...]

    @property
    def family_name(self) -> str:
        """The name as the client takes it: it appends `_total` to a counter's."""
        return self.name.removesuffix("_total") if self.kind is Kind.COUNTER else self.name

    @property
    def series(self) -> Sequence[str]:
        if self.kind is Kind.HISTOGRAM:
            return [f"{self.name}{suffix}" for suffix in ("_bucket", "_count", "_sum")]
        return [self.name]

    def family(self, measured: float | Series) -> Metric:
        kind = CounterMetricFamily if self.kind is Kind.COUNTER else GaugeMetricFamily
        family = kind(self.family_name, self.help, labels=self.labels)
        series = measured if isinstance(measured, Mapping) else {(): measured}
        for labels, value in sorted(series.items()):
            family.add_metric(labels, value)
        return family


_found: list[Described] = []


def _metric(series: str, source: Source, help_: str, *, kind: Kind) -> Described:
    """Describe a metric with its labels: *series* is like `cronhare_nodes{role, state}`."""
    name, _, labels = series.removesuffix("}").partition("{")
    found = Described(
        name=name,
        kind=kind,
        source=source,
        help=help_,
        labels=tuple(labels.split(", ")) if labels else (),
    )
    _found.append(found)
    return found


_counter = partial(_metric, kind=Kind.COUNTER)
_gauge = partial(_metric, kind=Kind.GAUGE)
_histogram = partial(_metric, kind=Kind.HISTOGRAM)
PROCESS, SCHEDULER, WORKER, LEDGER = Source

# The process.
BUILD = _gauge("cronhare_build_info{version}", PROCESS, "The release that runs, always 1")
CONNECTION_UP = _gauge(
    "cronhare_connection_up{connection}",
    PROCESS,
    "Whether what /readyz needs was proven within 30 s: ledger, broker, consumer",
)
LAST_TURN = _gauge(
    "cronhare_loop_last_turn_timestamp_seconds{loop}", PROCESS, "When the last turn of a loop began"
)
CLOCK_OFFSET = _gauge(
    "cronhare_clock_offset_seconds", PROCESS, "How far this host's clock is ahead of the ledger's"
)

# The way from a due instant to the start of its task.
LAST_TICK = _gauge(
    "cronhare_last_tick_timestamp_seconds",
    SCHEDULER,
    "When a scheduler last looked for what is due, and the ledger answered",
)
LATENESS = _histogram(
    "cronhare_lateness_seconds{stage}",
    PROCESS,
    "How long after its due instant a first attempt was claimed, published and started",
)
CLAIMED = _counter(
    "cronhare_executions_claimed_total", SCHEDULER, "Executions claimed when they were due"
)
SKIPPED = _counter(
    "cronhare_instants_skipped_total{reason}",
    SCHEDULER,
    "Due instants that were recorded as skipped, by the kind of reason",
)
PUBLISHED = _counter(
    "cronhare_messages_published_total{outcome}",
    SCHEDULER,
    "Messages published, by what is known of them: confirmed, returned, refused, unknown",
)
RESENT = _counter(
    "cronhare_executions_resent_total",
    SCHEDULER,
    "Executions whose message was sent again, as it was overdue",
)
LOST = _counter(
    "cronhare_attempts_lost_total",
    PROCESS,
    "Attempts given up for lost: their worker vanished, or its lease lapsed",
)

# The worker.
RUNNING = _gauge("cronhare_worker_running", WORKER, "Deliveries being handled now")
SLOTS = _gauge("cronhare_worker_slots", WORKER, "Deliveries that may be handled at a time")
STARTED = _counter("cronhare_attempts_started_total", WORKER, "Attempts that the ledger let begin")
ATTEMPTS = _counter(
    "cronhare_attempts_total{outcome}", WORKER, "Attempts that have ended, by how they ended"
)
DURATION = _histogram(
    "cronhare_attempt_duration_seconds{outcome}", WORKER, "How long attempts took"
)
EXECUTIONS = _counter(
    "cronhare_executions_total{state}",
    WORKER,
    "Ends of attempts, by the state that the ledger recorded: retrying is no end of the execution",
)
FENCED = _counter(
    "cronhare_fence_refusals_total",
    WORKER,
    "Deliveries that were not started again, since somebody else decided; copies are common",
)
SUPERSEDED = _counter(
    "cronhare_ends_superseded_total",
    WORKER,
    "Ends that do not count, since the attempt was ended in the ledger before",
)
LEASES_LOST = _counter(
    "cronhare_leases_lost_total",
    WORKER,
    "Running attempts that were stopped, since their lease could not be kept",
)
QUARANTINED = _counter(
    "cronhare_deliveries_quarantined_total",
    WORKER,
    "Deliveries put into quarantine: unreadable, unknown, or poison",
)

# The ledger.
_gauge(
    "cronhare_ledger_measured_timestamp_seconds",
    LEDGER,
    "When the ledger was counted for this answer",
)
_counter(
    "job_queue_dlq_jobs_total{source_queue, job_name}",
    LEDGER,
    "Jobs moved to the dead letter queue that the archive has, resolved or not",
)
_gauge("job_queue_dlq_depth", LEDGER, "Jobs in the dead letter queue: failures that are unresolved")
_gauge("cronhare_executions_unfinished{queue, state}", LEDGER, "Executions that have not ended")
_counter(
    "app_schedule_job_no_listener_total{topic}",
    LEDGER,
    "Events that were completed though no task listens to their topic",
)
_gauge(
    "cronhare_oldest_waiting_seconds{queue}",
    LEDGER,
    "For how long the oldest execution has been due that waits for its first start",
)
_gauge(
    "cronhare_failures_unresolved{state}",
    LEDGER,
    "Failures in the archive that nobody has resolved: failed, quarantined",
)
_gauge(
    "cronhare_nodes{role, state}",
    LEDGER,
    "Processes that reported themselves within the last hour, and whether in the last 45 s too",
)
_gauge(
    "cronhare_queue_workers{queue}",
    LEDGER,
    "Processes that report themselves and serve a queue: not those drained, or cut off from the "
    "broker",
)
_gauge("cronhare_retry_budget_limit{queue}", LEDGER, "Retries that a window grants")
_gauge(
    "cronhare_retry_budget_remaining{queue}", LEDGER, "Retries of a queue that can be granted now"
)
_gauge(
    "cronhare_breaker_open{task}",
    LEDGER,
    "Whether the circuit breaker of a task is open, or half open",
)
_gauge(
    "cronhare_schedule_last_success_timestamp_seconds{schedule}",
    LEDGER,
    "When a run of the schedule last succeeded; 0 if none has that the ledger keeps",
)
_gauge(
    "cronhare_schedule_last_failure_timestamp_seconds{schedule}",
    LEDGER,
    "When a run of the schedule last failed for good; 0 if none has that the ledger keeps",
)
_gauge(
    "cronhare_schedules_without_series",
    LEDGER,
    "Enabled schedules beyond CRON_METRICS_SCHEDULES, which have no series of their own",
)
_gauge(
    "cronhare_ledger_rows{table}",
    LEDGER,
    "Rows of a table of the ledger, at most: the span of their ids",
)

CATALOGUE: Final = tuple(_found)
