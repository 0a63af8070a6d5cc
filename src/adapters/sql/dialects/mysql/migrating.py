"""Upgrading the schema on MySQL and MariaDB: one process at a time, for as long as it takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, func, select

from cronhare.ports.ledger import LedgerUnavailable

from ...dialect import Dialect, remember
from ...transactions.database import connect
from .sessions import Sessions

#: Another process may take so long to migrate; tables may be large.
MIGRATION_SECONDS: Final = 3_600

_PATIENT_SESSION: Final = "SET innodb_lock_wait_timeout = 60, lock_wait_timeout = 60"

_OLDEST_SERVERS: Final = {"MariaDB": (10, 6), "MySQL": (8, 0)}


@contextmanager
def migrating(sessions: Sessions, dialect: Dialect) -> Iterator[Connection]:
    """Give a connection for DDL, which waits for its turn and has no bound for answers.

    Raises:
        LedgerUnavailable: the server is too old, or another process has been at it for hours.
    """
    own = remember(sessions.patient(), dialect)
    lock = _lock_name(sessions.server.database)
    with connect(own, "upgrading the schema") as connection, connection.begin():
        _refuse_old_servers(connection)
        connection.exec_driver_sql(_PATIENT_SESSION)
        if connection.scalar(select(func.get_lock(lock, MIGRATION_SECONDS))) != 1:
            raise LedgerUnavailable("another process has been upgrading this schema for hours")
        yield connection  # the lock goes with the connection


def _lock_name(database: str) -> str:
    """Name the lock of one schema; locks are the server's, and their names have 64 letters."""
    return f"cronhare-{sha256(database.encode()).hexdigest()[:32]}"


def _refuse_old_servers(connection: Connection) -> None:
    dialect: Any = connection.dialect
    product = "MariaDB" if dialect.is_mariadb else "MySQL"
    version = tuple(dialect.server_version_info)
    oldest = _OLDEST_SERVERS[product]
    if version < oldest:
        raise LedgerUnavailable(
            f"{product} {'.'.join(map(str, version))} cannot keep the ledger: "
            f"{'.'.join(map(str, oldest))} or newer is needed"
        )
