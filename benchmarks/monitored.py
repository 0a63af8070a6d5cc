"""What it costs a dispatch to be counted for Prometheus, and to be traced."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import median

from cpu import cpu_of
from figures import Figure
from rig import Ledgers, opened
from samples import BUSY, QUIET, size

from tests.frozen_clock import FrozenClock

FEW = size(10_000, 60)
PAIRS = size(9, 1)

#: How much more CPU it may take.
DEARER = 1.05

#: Nobody takes the traces: sending them costs as much, and keeps none of them from being made.
WAYS: Mapping[str, Mapping[str, str]] = {
    "counted": {"CRON_PROBE_ADDRESS": "127.0.0.1:0"},
    "traced": {"CRON_TRACING": "on", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
}


def monitored(ledgers: Ledgers) -> list[Figure]:
    """Dispatch 10,000, plain and monitored in turns."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    _cpu(ledgers, {})  # the caches are warm then
    figures = list[Figure]()
    for how, settings in WAYS.items():
        pairs = [(_cpu(ledgers, {}), _cpu(ledgers, settings)) for _ in range(PAIRS)]
        plain = median(without for without, _ in pairs)
        ratio = median(with_it / without for without, with_it in pairs)
        figures.append(
            Figure(
                what=f"CPU: dispatch 10,000, {how}", ours=median(one for _, one in pairs), unit="s",
                goal=DEARER * plain,
                note=f"without {plain:.2f} s; ratio {ratio:.3f}, median of {PAIRS} pairs",
            )
        )  # fmt: skip
    return figures


def _cpu(ledgers: Ledgers, settings: Mapping[str, str]) -> float:
    clock = FrozenClock(QUIET)
    with (
        _environment(settings),
        ledgers.copy(FEW, busy=FEW) as path,
        opened(path, clock) as container,
    ):
        dispatcher = container.dispatcher()
        dispatcher.tick(QUIET)
        clock.move_to(BUSY)
        tick, seconds = cpu_of(lambda: dispatcher.tick(BUSY))
        assert tick.published == FEW, tick
        container.tracing().close()
    return seconds


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    os.environ |= settings
    try:
        yield
    finally:
        for name in settings:
            del os.environ[name]
