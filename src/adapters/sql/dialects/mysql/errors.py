"""What MySQL's and MariaDB's errors mean, and what to do."""

import re
import ssl
from collections.abc import Sequence
from typing import Any, Final

import pymysql
from pymysql.constants import CR
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cronhare.domain.diagnosis.servers import Cause

from ...dialect import Meaning

DEADLOCK: Final = 1213
LOCK_WAIT_TIMEOUT: Final = 1205
CHANGED_SINCE_READ: Final = 1020
DUPLICATE: Final = 1062
NO_NUMBER: Final = 1467
NO_NUMBER_LEFT: Final = 167
NOT_READY: Final = 1047  # a Galera node without the majority of its cluster, or not yet in it
REFUSED_BY_THE_GROUP: Final = 3101  # group replication has certified another's transaction

#: What a number means. The transaction is taken back by the server, or by the rollback that follows
#: every error here. What a cluster does not certify ends at COMMIT as a deadlock, and no number can
#: be had while an INSERT of many waits. A duplicate is what somebody else wrote in the same moment:
#: the next look sees it.
_MEANINGS: Final = {
    **dict.fromkeys(
        (DEADLOCK, CHANGED_SINCE_READ, NO_NUMBER, NOT_READY, REFUSED_BY_THE_GROUP),
        Meaning.TAKEN_BACK,
    ),
    LOCK_WAIT_TIMEOUT: Meaning.LOCKED,
    DUPLICATE: Meaning.DUPLICATE,
    # Closed by the server, killed, cut, or silent for too long.
    **dict.fromkeys((1053, 1927, 2006, 2013, 2014, 2055, 4031), Meaning.LOST),
    **dict.fromkeys((1290, 1792, 1836, 3100), Meaning.READ_ONLY),
    # A disk, a memory or a table that is full, the last number given away, a COMMIT that failed.
    **dict.fromkeys(
        (3, NO_NUMBER_LEFT, 1021, 1026, 1037, 1038, 1041, 1114, 1135, 1180), Meaning.OUTAGE
    ),
    # Values that the driver files elsewhere: SIGNAL of a trigger, a number that is too large, a
    # value that fits no column, JSON that is none, and a CHECK, of both products.
    **dict.fromkeys((1292, 1411, 1644, 1690, 3140, 3156, 3819, 3903, 4025, 4038), Meaning.REFUSED),
    **dict.fromkeys((1146, 1054), Meaning.MISSING),  # no such table, no such column
}

#: A client's own numbers, and a proxy's: they could not even ask.
_UNASKED: Final = frozenset((0, *range(2000, 3000), *range(9000, 10_000)))

_CAUSES: Final = {
    2003: Cause.ABSENT,
    2005: Cause.ABSENT,
    1045: Cause.LOGIN,
    1698: Cause.LOGIN,
    CR.CR_AUTH_PLUGIN_ERR: Cause.LOGIN,
    1044: Cause.PLACE,
    1049: Cause.PLACE,
}

_USER: Final = re.compile(r"(?:user )?'.*'@'[^']*'", re.DOTALL)

EXHAUSTED: Final = "somebody gave a row the last number that there is: `cronhare doctor` tells"

_ADVICE: Final = {
    NO_NUMBER_LEFT: EXHAUSTED,
    NO_NUMBER: "somebody keeps others from inserting into a table, or has given away its last "
    "number: `cronhare doctor` tells",
    DEADLOCK: "it met others again and again: look at SHOW ENGINE INNODB STATUS",
    LOCK_WAIT_TIMEOUT: "somebody keeps rows or a table locked: look in SHOW PROCESSLIST for a "
    "transaction that was left open",
    1040: "the server has too many connections: raise max_connections",
    1044: "this user may not use the database: GRANT what its role needs (operators.md, Rights)",
    1045: "the server refuses this user or password: look at the URL, and at the user's host",
    NOT_READY: "this node has lost the majority of its cluster: see wsrep_cluster_status",
    1049: "there is no such database: CREATE DATABASE it",
    1064: "the server does not understand us: MariaDB 10.6 or MySQL 8.0 is needed, or newer",
    1114: "a table is full: make room on the server's disk",
    1142: "this user lacks a privilege: GRANT what its role needs (operators.md, Rights)",
    1153: "a row is larger than the server takes: raise max_allowed_packet",
    1180: "the server could not commit: its log says why, and nobody knows what became of it",
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


def meaning_of(error: BaseException | None) -> Meaning:
    """Tell by its number; the error of a closed connection has none."""
    original = error.orig if isinstance(error, DBAPIError) else error
    number = number_of(original)
    if number in _MEANINGS:
        return _MEANINGS[number]
    if isinstance(original, pymysql.InterfaceError) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    ):
        return Meaning.LOST
    if isinstance(original, pymysql.IntegrityError | pymysql.DataError):
        return Meaning.REFUSED
    return Meaning.OUTAGE if number in _UNASKED else Meaning.FAILED


def is_lost(error: BaseException | None) -> bool:
    return meaning_of(error) is Meaning.LOST or number_of(error) == NOT_READY


def cause_of(error: BaseException | None) -> Cause:
    return _CAUSES.get(number_of(error), Cause.OTHER)


def hint(cause: Cause) -> str:
    return (
        "`CREATE DATABASE name CHARACTER SET utf8mb4`, `GRANT ALL ON name.* TO user`"
        if cause is Cause.PLACE
        else ""
    )


def explain(error: SQLAlchemyError) -> str:
    if isinstance(error, PoolTimeout):
        return f"all connections of this process are in use ({error})"
    original = error.orig if isinstance(error, DBAPIError) else error
    said = said_by(error)
    if trouble := tls_trouble(original):
        return f"{trouble} ({said})"
    advice = _ADVICE.get(number_of(error))
    if advice is None and is_lost(error):
        advice = "the connection was lost"
    if isinstance(original, pymysql.InternalError) and not number_of(error):
        advice = "what answers there is not understood"  # of packets that are no server's
    return f"{advice} ({said})" if advice else said


def said_by(error: BaseException | None) -> str:
    original = error.orig if isinstance(error, DBAPIError) else error
    return " ".join(map(str, without_user(original.args))) if original is not None else ""


def none_usable(refusals: Sequence[Exception], text: str) -> Exception:
    numbers = sorted(map(number_of, refusals), key=lambda each: each in {0, CR.CR_CONN_HOST_ERROR})
    return pymysql.OperationalError(numbers[0] or CR.CR_CONN_HOST_ERROR, text)


def without_user(said: tuple[Any, ...]) -> tuple[Any, ...]:
    """Take the user out of what the server says: where passwords are mistyped, it may be one."""
    return tuple(_USER.sub("this user", each) if isinstance(each, str) else each for each in said)


def tls_trouble(error: BaseException | None) -> str | None:
    """Say what is wrong with the encryption of a link, and what to do; None if that is not it."""
    cause = getattr(error, "original_exception", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"its certificate is refused: {cause.verify_message}. Name the CA that signed it by "
            "?ssl_ca=/path/ca.pem, and the server as its certificate does"
        )
    if number_of(error) == CR.CR_SSL_CONNECTION_ERROR or isinstance(cause, ssl.SSLError):
        return (
            "the server speaks no TLS that we accept: turn it on there (ssl_cert, ssl_key), or add "
            "?tls=off to the URL if the network between is your own"
        )
    return None
