"""What a process counts of itself."""

import math
import threading
import time
from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from operator import attrgetter
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.core import HistogramMetricFamily, Metric

from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.schedules.skips import SkipKind
from cronhare.ports import LedgerUnavailable
from cronhare.ports.broker import Published

from . import catalogue as all_of
from .catalogue import Described

#: The bounds of the histograms, in seconds.
LATE: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600)
LONG: Final = (0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400)

_due_at: Callable[[Execution], datetime] = attrgetter("due_at")


class BatchHistogram:
    """A histogram with one label that takes many equal values at once: a busy minute brings them.

    Its bounds are in seconds, rising.
    """

    def __init__(self, described: Described, bounds: Sequence[float]) -> None:
        """*bounds* are without the last one, infinity."""
        self._described = described
        self._bounds = [*bounds, math.inf]
        self._lock = threading.Lock()
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, label: str, seconds: float, times: int = 1) -> None:
        """Take a value, so many *times*; a clock that was set makes no value negative."""
        seconds = max(seconds, 0.0)
        with self._lock:
            counts = self._counts.setdefault(label, [0] * len(self._bounds))
            counts[bisect_left(self._bounds, seconds)] += times
            self._sums[label] = self._sums.get(label, 0.0) + seconds * times

    def collect(self) -> Iterator[Metric]:
        """Give its family."""
        described = self._described
        family = HistogramMetricFamily(described.name, described.help, labels=described.labels)
        with self._lock:
            for label, counts in sorted(self._counts.items()):
                sums = zip(self._bounds, accumulate(counts), strict=True)
                buckets = [(_said(bound), float(count)) for bound, count in sums]
                family.add_metric((label,), buckets, self._sums[label])
        yield family


def _said(bound: float) -> str:
    return "+Inf" if bound == math.inf else repr(float(bound))


class PrometheusMetrics:
    """Satisfies `MetricsPort`. Nothing is counted twice for one event, and nothing is forgotten."""

    def __init__(self, registry: CollectorRegistry, *, now: Callable[[], datetime]) -> None:
        """*now* is the ledger's time as this node keeps it."""
        # Each would have a series more, which nobody reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._now = now
        self._lateness = BatchHistogram(all_of.LATENESS, LATE)
        self._duration = BatchHistogram(all_of.DURATION, LONG)
        for histogram in (self._lateness, self._duration):
            registry.register(histogram)

        def counter(described: Described) -> Counter:
            name, text, labels = described.family_name, described.help, described.labels
            return Counter(name, text, labels, registry=registry)

        last_tick = all_of.LAST_TICK
        self._last_tick = Gauge(last_tick.name, last_tick.help, registry=registry)
        self._claimed = counter(all_of.CLAIMED)
        self._skipped = counter(all_of.SKIPPED)
        self._published = counter(all_of.PUBLISHED)
        self._resent = counter(all_of.RESENT)
        self._lost = counter(all_of.LOST)
        self._started = counter(all_of.STARTED)
        self._attempts = counter(all_of.ATTEMPTS)
        self._executions = counter(all_of.EXECUTIONS)
        self._superseded = counter(all_of.SUPERSEDED)
        self._fenced = counter(all_of.FENCED)
        self._leases_lost = counter(all_of.LEASES_LOST)
        self._quarantined = counter(all_of.QUARANTINED)
        _begin_at_zero(self._published, [each.value for each in Published])
        _begin_at_zero(self._attempts, [each.value for each in Ending])

    def ticked(self) -> None:
        self._last_tick.set(time.time())

    def claimed(self, executions: Sequence[Execution], *, now: datetime) -> None:
        self._claimed.inc(len(executions))
        self._late("claimed", Tally(map(_due_at, executions)), now)

    def skipped(self, instants: Mapping[SkipKind, int]) -> None:
        for kind, count in instants.items():
            self._skipped.labels(kind.value).inc(count)

    def published(self, executions: Sequence[Execution], outcomes: Sequence[Published]) -> None:
        for outcome, count in Tally(outcomes).items():
            self._published.labels(outcome.value).inc(count)
        first = Tally(
            execution.due_at
            for execution, outcome in zip(executions, outcomes, strict=True)
            if outcome is Published.CONFIRMED
            and execution.attempt == 1
            and execution.published_at is None
        )
        if first:
            try:
                now = self._now()
            except LedgerUnavailable:
                return  # its time is not known here yet
            self._late("published", first, now)

    def resent(self, executions: int) -> None:
        self._resent.inc(executions)

    def lost(self, attempts: int) -> None:
        self._lost.inc(attempts)

    def started(self, execution: Execution) -> None:
        self._started.inc()
        if execution.attempt == 1 and execution.started_at is not None:
            late = execution.started_at - execution.due_at
            self._lateness.observe("started", late.total_seconds())

    def attempt_ended(self, ending: Ending, *, seconds: float) -> None:
        self._attempts.labels(ending.value).inc()
        self._duration.observe(ending.value, seconds)

    def recorded(self, state: State) -> None:
        self._executions.labels(state.value).inc()

    def superseded(self) -> None:
        self._superseded.inc()

    def fenced(self) -> None:
        self._fenced.inc()

    def lease_lost(self) -> None:
        self._leases_lost.inc()

    def quarantined(self) -> None:
        self._quarantined.inc()

    def _late(self, stage: str, due: "Tally[datetime]", now: datetime) -> None:
        for due_at, count in due.items():
            self._lateness.observe(stage, (now - due_at).total_seconds(), count)


def _begin_at_zero(counter: Counter, labels: Sequence[str]) -> None:
    """Let a rate begin before the first event does."""
    for label in labels:
        counter.labels(label)
