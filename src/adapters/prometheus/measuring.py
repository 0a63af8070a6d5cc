"""What is asked for at the moment of an answer: what the ledger counts, and a process's gauges."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs
from prometheus_client import (
    CollectorRegistry,
    generate_latest,
    write_to_textfile,
)
from prometheus_client.core import Metric

from cronhare.application.administration.views.work import MetricsView
from cronhare.ports import LedgerUnavailable

from . import catalogue as all_of
from .catalogue import CATALOGUE

log = logging.getLogger(__name__)

#: Seconds between two counts, whoever scrapes how often; that a scrape waits for one; and after
#: which an old one says nothing any more.
COUNT_EVERY: Final = 15.0
WAIT: Final = 3.0
STALE: Final = 120.0


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
    registry.register(LedgerCollector(measured))
    return registry


@attrs.frozen(eq=False)  # a registry has its collectors by identity
class LedgerCollector:
    """The families of what was measured at one moment."""

    _measured: MetricsView

    def collect(self) -> Iterator[Metric]:
        """Give the families of metrics, as the client asks for them."""
        for described in CATALOGUE:
            if described.measure is not None:
                yield described.family(described.measure(self._measured))


#: What is one number, if it is known.
_NUMBERS: Final = {
    "clock_offset": all_of.CLOCK_OFFSET,
    "running": all_of.RUNNING,
    "slots": all_of.SLOTS,
}


@attrs.frozen(eq=False, kw_only=True)
class VitalsCollector:
    """Gauges that are read when they are asked for; None where there is nothing to read."""

    version: str
    connections: Callable[[], Mapping[str, bool]]
    last_turns: Callable[[], Mapping[str, float]]
    numbers: Callable[[], Mapping[str, float | None]]

    def collect(self) -> Iterator[Metric]:
        """Give the families, as the client asks for them."""
        yield all_of.BUILD.family({(self.version,): 1})
        for described, series in (
            (all_of.CONNECTION_UP, self.connections()),
            (all_of.LAST_TURN, self.last_turns()),
        ):
            yield described.family({(label,): value for label, value in series.items()})
        for name, value in self.numbers().items():
            if value is not None:
                yield _NUMBERS[name].family(value)


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
