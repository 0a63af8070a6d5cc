"""Crontabs of the classic daemons, read and carried over into a jobs file."""

from .carrier import import_crontabs
from .reader import accounts_in, guess_kind
from .source import Crontab, CrontabKind, Finding, Host, Imported, Verdict

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
