"""A histogram that takes many equal values at once: a busy minute brings ten thousand."""

import math
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily, Metric

from .catalogue import Described


class BatchHistogram:
    """A histogram with one label. Its bounds are in seconds, rising."""

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
        family = self._described.family(HistogramMetricFamily)
        with self._lock:
            for label, counts in sorted(self._counts.items()):
                sums = zip(self._bounds, accumulate(counts), strict=True)
                buckets = [(_said(bound), float(count)) for bound, count in sums]
                family.add_metric((label,), buckets, self._sums[label])
        yield family


def _said(bound: float) -> str:
    return "+Inf" if bound == math.inf else repr(float(bound))
