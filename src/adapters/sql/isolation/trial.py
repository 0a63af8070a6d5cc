"""Trying a change to see whether the database would accept it."""

from collections.abc import Callable

from sqlalchemy import Connection

from cronhare.ports.ledger import LedgerRefused, LedgerUnavailable

from ..transactions.database import Database


class _Accepted(Exception):
    """Raised to roll the trial back."""


def is_accepted(database: Database, doing: str, change: Callable[[Connection], bool]) -> bool:
    """Make a change, and roll it back; *change* says whether there was anything to change."""
    try:
        with database.write(doing) as connection:
            if change(connection):
                raise _Accepted  # noqa: TRY301 - it rolls the transaction back
    except _Accepted:
        return True
    except (LedgerRefused, LedgerUnavailable):
        return False
    return False
