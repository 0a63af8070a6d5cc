"""What SQLite's errors mean, and what to do."""

import re
from typing import Final

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from cronhare.domain.diagnosis.servers import Cause

from ...dialect import Meaning

#: So long a statement waits for another process that writes: far above a commit, below a
#: lease of 30 s.
BUSY_SECONDS: Final = 10.0

_ADVICE: Final = {
    "SQLITE_BUSY": "another process has kept the file locked for "
    f"{BUSY_SECONDS:.0f} s: look for a transaction that somebody left open on it",
    "SQLITE_LOCKED": "another connection keeps a table locked: look for an open transaction",
    "SQLITE_FULL": "the disk is full: make room, and it goes on by itself; or a table has given "
    "away its last number, which is in sqlite_sequence",
    "SQLITE_READONLY": "the file is read-only: let this user write to it and to its folder",
    "SQLITE_CANTOPEN": "the file cannot be opened: its folder must exist, and this user must be "
    "allowed to write to both",
    "SQLITE_NOTADB": "the file is not an SQLite database: look at CRON_DATABASE_URL",
    "SQLITE_CORRUPT": "the file is damaged: restore it from a backup",
    "SQLITE_IOERR": "the disk or its file system reports a fault",
}

_REFUSED: Final = ("SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_TOOBIG")

#: What a trigger, or an index that it fills, may fail of.
_FAILED: Final = ("SQLITE_ERROR", "SQLITE_CORRUPT_VTAB")

#: No table, no column.
_MISSING: Final = re.compile(r"no such table: |no such column: |no column named ")


def meaning_of(error: BaseException | None) -> Meaning:
    """Tell by its name. What SQLite says of its file, or of who uses it, holds for all rows.

    No transaction is rolled back: a writer is alone, and has waited for that before it began.
    """
    name = _name_of(error)
    if isinstance(error, IntegrityError | DataError) or name.startswith(_REFUSED):
        return Meaning.REFUSED
    if _MISSING.search(str(_original(error))):
        return Meaning.MISSING
    return Meaning.FAILED if name.startswith(_FAILED) else Meaning.OUTAGE


def cause_of(error: BaseException | None) -> tuple[Cause, str]:  # noqa: ARG001
    """There is no server: whatever it is, it is the file's."""
    return Cause.OTHER, ""


def explain(error: SQLAlchemyError) -> str:
    name, said = _name_of(error), str(_original(error) or error)
    found = (advice for known, advice in _ADVICE.items() if name.startswith(known))
    return next((f"{advice} ({said})" for advice in found), said)


def _name_of(error: BaseException | None) -> str:
    return getattr(_original(error), "sqlite_errorname", None) or ""


def _original(error: BaseException | None) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else None
