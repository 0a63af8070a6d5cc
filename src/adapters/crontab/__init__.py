"""Crontabs of the classic daemons, read and carried over into a jobs file."""

from .carrier import import_crontabs
from .guess import accounts_in, guess_kind
from .host import Host
from .report import Finding, Imported, Verdict
from .source import Crontab, CrontabKind
from .usable import parse_usable

__all__ = [
    "Crontab",
    "CrontabKind",
    "Finding",
    "Host",
    "Imported",
    "Verdict",
    "accounts_in",
    "guess_kind",
    "import_crontabs",
    "parse_usable",
]
