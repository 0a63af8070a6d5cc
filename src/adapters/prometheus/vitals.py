"""What a process is asked for at the moment of an answer."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs
from prometheus_client.core import GaugeMetricFamily, Metric

from . import catalogue as all_of
from .catalogue import Described

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
        yield _family(all_of.BUILD, {self.version: 1})
        yield _family(all_of.CONNECTION_UP, self.connections())
        yield _family(all_of.LAST_TURN, self.last_turns())
        for name, value in self.numbers().items():
            if value is not None:
                family = _NUMBERS[name].family(GaugeMetricFamily)
                family.add_metric((), value)
                yield family


def _family(described: Described, series: Mapping[str, float]) -> Metric:
    family = described.family(GaugeMetricFamily)
    for label, value in series.items():
        family.add_metric((label,), value)
    return family
