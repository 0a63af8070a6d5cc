"""Metrics for Prometheus, by its own client; `catalogue.py` has all names."""

from .catalogue import CATALOGUE, Described, Kind, Source
from .ledger import LedgerCollector, VitalsCollector, exposition, write_textfile

__all__ = [
    "CATALOGUE",
    "Described",
    "Kind",
    "LedgerCollector",
    "Source",
    "VitalsCollector",
    "exposition",
    "write_textfile",
]
