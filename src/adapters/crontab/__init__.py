"""Crontabs of the classic daemons, read and carried over into a jobs file."""

from .carrier import import_crontabs
from .guess import accounts_in, guess_kind
from .report import Finding, Imported, Verdict
from .source import Crontab, CrontabKind, Host

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
]
