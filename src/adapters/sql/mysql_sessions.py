"""Sessions with MySQL and MariaDB, and the pool that keeps them.

They depend on nothing that an administrator may have set: time zone, isolation, strictness and
character set are ours.
"""

from typing import Any, Final

import pymysql
from pymysql.constants import FIELD_TYPE
from sqlalchemy import URL, Engine, ExceptionContext, NullPool, QueuePool, create_engine, event

from . import mysql_errors, mysql_reading

#: So long the server may take for an answer. A worker whose lease could not be renewed for two
#: thirds of its 30 s ends its tasks: a silent server has to be noticed well before.
ANSWER_SECONDS: Final = 10
CONNECT_SECONDS: Final = 5

#: So long a statement waits for rows that others hold, and nobody of ours holds any that long.
LOCK_SECONDS: Final = 3

#: A session that says nothing for so long is ended by the server, so that what a host held when it
#: vanished is free again; by default that takes eight hours. A worker at rest asks for the time
#: every 30 s.
IDLE_SECONDS: Final = 45

#: Strict, or too long a text would be cut in silence. Zero dates, which strict modes refuse as
#: well, may stand in rows that people wrote: the plans quote them.
SQL_MODE: Final = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

_SESSION: Final = (
    f"SET time_zone = '+00:00', sql_mode = '{SQL_MODE}'",
    f"SET innodb_lock_wait_timeout = {LOCK_SECONDS}, wait_timeout = {IDLE_SECONDS}",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)

_CONVERSIONS: Final = {
    **pymysql.converters.conversions,
    FIELD_TYPE.DATETIME: mysql_reading.read_moment,
    FIELD_TYPE.TIMESTAMP: mysql_reading.read_moment,
}


def pooled(url: URL) -> Engine:
    """Make an engine that keeps its sessions. The last that was given back is lent first.

    So one stays awake. What is lent is not tested: a session that was lost is found out by its
    first statement, thrown away with all that are older, and the call repeated.
    """
    return _engine(
        url,
        connect_args={"read_timeout": ANSWER_SECONDS, "write_timeout": ANSWER_SECONDS},
        poolclass=QueuePool,
        pool_timeout=ANSWER_SECONDS,
        pool_use_lifo=True,
    )


def patient(url: URL) -> Engine:
    """Make an engine without a bound for answers, whose sessions end with their use."""
    return _engine(url, connect_args={}, poolclass=NullPool)


def _engine(url: URL, *, connect_args: dict[str, Any], **pooling: Any) -> Engine:  # noqa: ANN401
    """Make an engine. Nothing is reset on return: our transactions end before."""
    engine = create_engine(
        url,
        pool_reset_on_return=None,
        connect_args={
            "charset": "utf8mb4",
            "connect_timeout": CONNECT_SECONDS,
            # Without FOUND_ROWS a duplicate that is left as it is counts 0, so that the number
            # of affected rows is the number of those inserted.
            "client_flag": 0,
            "conv": _CONVERSIONS,
            **connect_args,
        },
        **pooling,
    )
    event.listen(engine, "connect", lambda connection, _record: prepare(connection))
    event.listen(engine, "handle_error", _note_loss)
    return engine


def prepare(connection: "pymysql.Connection[Any]") -> None:
    """Set up a new session."""
    with connection.cursor() as cursor:
        for statement in _SESSION:
            cursor.execute(statement)


def _note_loss(context: ExceptionContext) -> None:
    """Let the pool throw away what SQLAlchemy does not know to be lost."""
    if mysql_errors.is_lost(context.original_exception):
        context.is_disconnect = True
