"""What MySQL's and MariaDB's errors mean, and what to do."""

from typing import Final

import pymysql
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

DEADLOCK: Final = 1213
LOCK_WAIT_TIMEOUT: Final = 1205
CHANGED_SINCE_READ: Final = 1020
DUPLICATE: Final = 1062

#: The transaction is taken back, by the server or by the rollback that follows every error here.
#: A duplicate is what somebody else wrote in the same moment: the next look sees it.
_TAKEN_BACK: Final = frozenset({DEADLOCK, LOCK_WAIT_TIMEOUT, CHANGED_SINCE_READ, DUPLICATE})

#: The connection is gone: closed by the server, killed, cut, or silent for too long.
_LOST: Final = frozenset({1053, 1927, 2006, 2013, 2014, 2055, 4031})

#: No such table, no such column.
_OUTDATED: Final = frozenset({1146, 1054})

_ADVICE: Final = {
    DEADLOCK: "it met others again and again: look at SHOW ENGINE INNODB STATUS",
    LOCK_WAIT_TIMEOUT: "somebody keeps rows or a table locked: look in SHOW PROCESSLIST for a "
    "transaction that was left open",
    1040: "the server has too many connections: raise max_connections",
    1044: "this user may not use the database: GRANT ALL on it",
    1045: "the server refuses this user or password: look at the URL, and at the user's host",
    1049: "there is no such database: CREATE DATABASE it",
    1064: "the server does not understand us: MariaDB 10.6 or MySQL 8.0 is needed, or newer",
    1114: "a table is full: make room on the server's disk",
    1142: "this user lacks a privilege: GRANT ALL on the database",
    1153: "a row is larger than the server takes: raise max_allowed_packet",
    1290: "the server is read-only: name the primary in the URL",
    1665: "the server's binlog_format is STATEMENT: set it to ROW or MIXED",
    1836: "the server is read-only: name the primary in the URL",
    2003: "the server cannot be reached: see that it runs, and that the URL names it",
    2006: "the connection was lost",
    2013: "the connection was lost, or the server did not answer in time",
}


def number_of(error: BaseException | None) -> int:
    """Read an error's number; 0 where it has none."""
    if isinstance(error, DBAPIError):
        error = error.orig
    if isinstance(error, pymysql.MySQLError) and error.args and isinstance(error.args[0], int):
        return error.args[0]
    return 0


def is_lost(error: BaseException | None) -> bool:
    """Tell an error after which the connection is of no use. A closed one has no number."""
    if isinstance(error, DBAPIError):
        if error.connection_invalidated:
            return True
        error = error.orig
    return isinstance(error, pymysql.InterfaceError) or number_of(error) in _LOST


def is_undone(error: SQLAlchemyError, *, committing: bool) -> bool:
    """See `Vendor.is_undone`. Of a COMMIT without an answer nobody knows what became."""
    if number_of(error) in _TAKEN_BACK:
        return True
    return not committing and is_lost(error)


def is_outdated(error: SQLAlchemyError) -> bool:
    """See `Vendor.is_outdated`."""
    return number_of(error) in _OUTDATED


def explain(error: SQLAlchemyError) -> str:
    """See `Vendor.explain`."""
    if isinstance(error, PoolTimeout):
        return f"all connections of this process are in use ({error})"
    original = error.orig if isinstance(error, DBAPIError) else error
    advice = _ADVICE.get(number_of(error))
    if advice is None and is_lost(error):
        advice = "the connection was lost"
    return f"{advice} ({original})" if advice else str(original)
