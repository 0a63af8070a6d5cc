"""All that a process answers at /metrics; imported when it is asked for, as it takes 20 ms."""

from collections.abc import Callable
from importlib.metadata import version

from prometheus_client import CollectorRegistry, ProcessCollector

from cronhare.adapters.prometheus.vitals import VitalsCollector
from cronhare.application.administration.views.metrics import MetricsView

from .measuring import LedgerMeasuring
from .vitals import Vitals


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
