"""All that a process answers at /metrics; imported when it is asked for, as it takes 20 ms.

What the ledger counts is asked seldom, beside the answers, and bounded.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric

from cronhare.adapters.prometheus import LedgerCollector, VitalsCollector
from cronhare.application.administration.views.work import MetricsView
from cronhare.ports import LedgerUnavailable

from .vitals import Vitals

log = logging.getLogger(__name__)

#: Seconds between two counts, whoever scrapes how often; that a scrape waits for one; and after
#: which an old one says nothing any more.
COUNT_EVERY: Final = 15.0
WAIT: Final = 3.0
STALE: Final = 120.0


def make_registry(vitals: Vitals, measure: Callable[[], MetricsView]) -> CollectorRegistry:
    """Give what a process is asked for, and what the ledger counts; counters join by themselves."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(
        VitalsCollector(
            version=version("cronhare"),
            connections=vitals.proofs.up,
            last_turns=vitals.turns.last,
            numbers=vitals.numbers,
        )
    )
    registry.register(LedgerMeasuring(measure, is_wanted=vitals.measures_ledger_now))
    return registry


class LedgerMeasuring:
    """A collector that has the ledger counted when it is asked, in a thread of its own.

    Where the ledger is away, or too slow, the answer is without its metrics, or with the last ones.
    """

    def __init__(
        self,
        measure: Callable[[], MetricsView],
        *,
        is_wanted: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """*measure* counts; *is_wanted* tells whether to ask the ledger now."""
        self._measure = measure
        self._is_wanted = is_wanted
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counting: threading.Thread | None = None
        self._asked_at: float | None = None
        self._last: tuple[float, MetricsView] | None = None

    def collect(self) -> Iterator[Metric]:
        """Give the families, as the client asks for them."""
        counting = self._begin()
        if counting is not None:
            counting.join(WAIT)
        last = self._last
        if last is not None and self._monotonic() - last[0] <= STALE:
            yield from LedgerCollector(last[1]).collect()

    def _begin(self) -> threading.Thread | None:
        """Begin to count if it is time: one at a time, which another scrape waits for, too."""
        now = self._monotonic()
        with self._lock:
            if self._counting is not None and self._counting.is_alive():
                return self._counting
            is_due = self._asked_at is None or now - self._asked_at >= COUNT_EVERY
            if not is_due or not self._is_wanted():
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
