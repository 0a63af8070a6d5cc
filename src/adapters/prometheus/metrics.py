"""What a process counts of itself, and what is measured when somebody asks."""

import logging
import math
import threading
import time
from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Final

import attrs
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    generate_latest,
    write_to_textfile,
)
from prometheus_client.core import HistogramMetricFamily, Metric

from cronhare.application.administration.views.work import Measured, Series
from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.schedules.skips import SkipKind
from cronhare.ports import LedgerUnavailable
from cronhare.ports.broker import Published

from . import catalogue as all_of
from .catalogue import CATALOGUE, Described, Kind, Source

log = logging.getLogger(__name__)

#: The bounds of the histograms, in seconds.
LATE: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600)
LONG: Final = (0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400)


class BatchHistogram:
    """A histogram with one label that takes many equal values at once: a busy minute brings them.

    Its bounds are in seconds, rising, without the last one, infinity.
    """

    def __init__(self, described: Described, bounds: Sequence[float]) -> None:
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
        one = self._described
        family = HistogramMetricFamily(one.name, one.help, labels=one.labels)
        names = [*(repr(float(bound)) for bound in self._bounds[:-1]), "+Inf"]
        with self._lock:
            for label, counts in sorted(self._counts.items()):
                buckets = list(zip(names, map(float, accumulate(counts)), strict=True))
                family.add_metric((label,), buckets, self._sums[label])
        yield family


class PrometheusMetrics:
    """Satisfies `MetricsPort`. Nothing is counted twice for one event, and nothing is forgotten."""

    def __init__(self, registry: CollectorRegistry, *, now: Callable[[], datetime]) -> None:
        # Each would have a series more, which nobody reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._now = now
        self._lateness = BatchHistogram(all_of.LATENESS, LATE)
        self._duration = BatchHistogram(all_of.DURATION, LONG)
        registry.register(self._lateness)
        registry.register(self._duration)
        last_tick = all_of.LAST_TICK
        self._last_tick = Gauge(last_tick.name, last_tick.help, registry=registry)
        self._of = {
            one: Counter(one.family_name, one.help, one.labels, registry=registry)
            for one in CATALOGUE
            if one.kind is Kind.COUNTER and one.source is not Source.LEDGER
        }
        # A rate begins before the first event does.
        for outcome in Published:
            self._of[all_of.PUBLISHED].labels(outcome.value)
        for ending in Ending:
            self._of[all_of.ATTEMPTS].labels(ending.value)

    def ticked(self) -> None:
        self._last_tick.set(time.time())

    def claimed(self, executions: Sequence[Execution], *, now: datetime) -> None:
        self._of[all_of.CLAIMED].inc(len(executions))
        self._late("claimed", Tally(execution.due_at for execution in executions), now)

    def skipped(self, instants: Mapping[SkipKind, int]) -> None:
        for kind, count in instants.items():
            self._of[all_of.SKIPPED].labels(kind.value).inc(count)

    def published(self, executions: Sequence[Execution], outcomes: Sequence[Published]) -> None:
        for outcome, count in Tally(outcomes).items():
            self._of[all_of.PUBLISHED].labels(outcome.value).inc(count)
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
        self._of[all_of.RESENT].inc(executions)

    def lost(self, attempts: int) -> None:
        self._of[all_of.LOST].inc(attempts)

    def started(self, execution: Execution) -> None:
        self._of[all_of.STARTED].inc()
        if execution.attempt == 1 and execution.started_at is not None:
            late = execution.started_at - execution.due_at
            self._lateness.observe("started", late.total_seconds())

    def attempt_ended(self, ending: Ending, *, seconds: float) -> None:
        self._of[all_of.ATTEMPTS].labels(ending.value).inc()
        self._duration.observe(ending.value, seconds)

    def recorded(self, state: State) -> None:
        self._of[all_of.EXECUTIONS].labels(state.value).inc()

    def superseded(self) -> None:
        self._of[all_of.SUPERSEDED].inc()

    def fenced(self) -> None:
        self._of[all_of.FENCED].inc()

    def lease_lost(self) -> None:
        self._of[all_of.LEASES_LOST].inc()

    def quarantined(self) -> None:
        self._of[all_of.QUARANTINED].inc()

    def _late(self, stage: str, due: "Tally[datetime]", now: datetime) -> None:
        for due_at, count in due.items():
            self._lateness.observe(stage, (now - due_at).total_seconds(), count)


def exposition(measured: Measured) -> str:
    return generate_latest(_registry(measured)).decode()


def write_textfile(measured: Measured, path: Path) -> None:
    """Write metrics into a file, whole or not at all: whoever reads it sees no half of it.

    Raises:
        OSError: it cannot be written.
    """
    write_to_textfile(str(path), _registry(measured))


def _registry(measured: Measured) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(LedgerCollector(measured))
    return registry


@attrs.frozen(eq=False)  # a registry has its collectors by identity
class LedgerCollector:
    """The families of what was measured at one moment."""

    _measured: Measured

    def collect(self) -> Iterator[Metric]:
        for described in CATALOGUE:
            if described.source is Source.LEDGER:
                yield described.family(self._measured.get(described.name, {}))


@attrs.frozen(eq=False)
class Gauges:
    """Gauges that are read when they are asked for; None where there is nothing to read."""

    _measures: Mapping[Described, Callable[[], float | Series | None]]

    def collect(self) -> Iterator[Metric]:
        for described, measure in self._measures.items():
            if (measured := measure()) is not None:
                yield described.family(measured)


#: Seconds between two counts, whoever scrapes how often; that a scrape waits for one; and after
#: which an old one says nothing any more.
COUNT_EVERY: Final = 15.0
WAIT: Final = 3.0
STALE: Final = 120.0


class LedgerMeasuring:
    """A collector that has the ledger counted when it is asked, in a thread of its own.

    Where the ledger is away, or too slow, the answer is without its metrics, or with the last ones.
    """

    def __init__(
        self,
        measure: Callable[[], Measured],
        *,
        is_wanted: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._measure = measure
        self._is_wanted = is_wanted
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counting: threading.Thread | None = None
        self._asked_at = -math.inf
        self._last: tuple[float, Measured] | None = None

    def collect(self) -> Iterator[Metric]:
        counting = self._begin()
        if counting is not None:
            counting.join(WAIT)
        last = self._last
        if last is not None and self._monotonic() - last[0] <= STALE:
            yield from LedgerCollector(last[1]).collect()

    def _begin(self) -> threading.Thread | None:
        now = self._monotonic()
        with self._lock:
            if self._counting is not None and self._counting.is_alive():
                return self._counting
            if now - self._asked_at < COUNT_EVERY or not self._is_wanted():
                return None
            self._asked_at = now
            self._counting = threading.Thread(target=self._count, name="measuring", daemon=True)
            self._counting.start()
            return self._counting

    def _count(self) -> None:
        try:
            self._last = (self._monotonic(), self._measure())
        except LedgerUnavailable:
            return  # the loops that work log it
        except Exception:
            text = "The ledger could not be counted for metrics: a fault of ours"
            log.exception("%s", text, extra={"action": "metrics.fault"})
