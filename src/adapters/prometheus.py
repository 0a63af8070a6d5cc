"""Metrics in Prometheus' text format, by its own client."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

import attrs
from prometheus_client import CollectorRegistry, generate_latest, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cronhare.application.administration.views.metrics import MetricsView

#: The names of S2.7 and S3.3 in docs/compatibility.md; the client appends `_total` to a counter's.
_DEAD_LETTERS: Final = "job_queue_dlq_jobs"
_DEPTH: Final = "job_queue_dlq_depth"
_UNHEARD: Final = "app_schedule_job_no_listener"
_UNFINISHED: Final = "cronhare_executions_unfinished"


def exposition(measured: MetricsView) -> str:
    """Write metrics as text."""
    return generate_latest(_registry(measured)).decode()


def write_textfile(measured: MetricsView, path: Path) -> None:
    """Write metrics into a file, whole or not at all: whoever reads it sees no half of it.

    Raises:
        OSError: it cannot be written.
    """
    write_to_textfile(str(path), _registry(measured))


def _registry(measured: MetricsView) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(measured))
    return registry


Labels = TypeVar("Labels", tuple[str], tuple[str, str])


@attrs.frozen(eq=False)  # a registry has its collectors by identity
class _Collector:
    _measured: MetricsView

    def collect(self) -> Iterator[Metric]:
        """Give the families of metrics, as the client asks for them."""
        jobs = CounterMetricFamily(
            _DEAD_LETTERS,
            "Jobs moved to the dead letter queue that the archive has, resolved or not",
            labels=("source_queue", "job_name"),
        )
        yield _filled(jobs, self._measured.dead_letters)
        yield GaugeMetricFamily(
            _DEPTH,
            "Jobs in the dead letter queue: failures that are unresolved",
            value=self._measured.depth,
        )
        unfinished = GaugeMetricFamily(
            _UNFINISHED,
            "Executions that have not ended",
            labels=("queue", "state"),
        )
        yield _filled(unfinished, self._measured.unfinished)
        unheard = CounterMetricFamily(
            _UNHEARD,
            "Events that were completed though no task listens to their topic",
            labels=("topic",),
        )
        yield _filled(unheard, self._measured.unheard)


def _filled(
    family: CounterMetricFamily | GaugeMetricFamily, series: Mapping[Labels, int]
) -> Metric:
    for labels in sorted(series):
        family.add_metric(labels, series[labels])
    return family
