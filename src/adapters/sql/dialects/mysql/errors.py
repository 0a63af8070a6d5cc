"""What MySQL's and MariaDB's errors mean, and what to do."""

import re
import ssl
from collections.abc import Sequence
from typing import Final

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

#: What a number means. The transaction is rolled back by the server, or by us after any error. What
#: a cluster does not certify ends at its COMMIT as a deadlock. No number can be had while an INSERT
#: of many rows waits.
_MEANINGS: Final = {
    **dict.fromkeys(
        (DEADLOCK, CHANGED_SINCE_READ, NO_NUMBER, REFUSED_BY_THE_GROUP), Meaning.TAKEN_BACK
    ),
    LOCK_WAIT_TIMEOUT: Meaning.LOCKED,
    DUPLICATE: Meaning.DUPLICATE,
    # Closed by the server, killed, cut, or silent for too long.
    **dict.fromkeys((1053, 1927, 2006, 2013, 2014, 2055, 4031), Meaning.LOST),
    **dict.fromkeys((NOT_READY, 1290, 1792, 1836, 3100), Meaning.NO_WRITES),
    # A disk, a memory or a table that is full, the last number given away, a COMMIT that failed; a
    # statement that took too long, or that somebody stopped.
    **dict.fromkeys(
        (3, NO_NUMBER_LEFT, 1021, 1026, 1037, 1038, 1041, 1114, 1135, 1180, 1317, 1969, 3024),
        Meaning.OUTAGE,
    ),
    # Values that the driver files elsewhere: SIGNAL of a trigger, a number that is too large, a
    # value that fits no column, JSON that is none, and a CHECK, of both products.
    **dict.fromkeys((1292, 1411, 1644, 1690, 3140, 3156, 3819, 3903, 4025, 4038), Meaning.REFUSED),
    **dict.fromkeys((1146, 1054), Meaning.MISSING),  # no such table, no such column
}

#: A client's own numbers, and a proxy's: the server was not even asked.
_UNASKED: Final = frozenset((0, *range(2000, 3000), *range(9000, 10_000)))

_CAUSES: Final = {
    **dict.fromkeys((2003, 2005), Cause.ABSENT),
    **dict.fromkeys((1045, 1698, CR.CR_AUTH_PLUGIN_ERR), Cause.LOGIN),
    **dict.fromkeys((1044, 1049), Cause.PLACE),
}

#: A user in a sentence of the server's: a mistyped URL may have a password there.
_USER: Final = re.compile(r"(?:user )?'.*'@'[^']*'", re.DOTALL)

NUMBERS_END: Final = (
    "a table has given away its last number: delete the row that has it if somebody wrote it, then "
    "`ALTER TABLE name AUTO_INCREMENT = 1`"
)

_ADVICE: Final = {
    NO_NUMBER_LEFT: NUMBERS_END,
    NO_NUMBER: f"somebody keeps others from inserting into a table, or {NUMBERS_END}",
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
    error = _original(error)
    if isinstance(error, pymysql.MySQLError) and error.args and isinstance(error.args[0], int):
        return error.args[0]
    return 0


def meaning_of(error: BaseException | None) -> Meaning:
    """Tell by its number; the error of a closed connection has none."""
    original, number = _original(error), number_of(error)
    if number in _MEANINGS:
        return _MEANINGS[number]
    if isinstance(original, pymysql.InterfaceError) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    ):
        return Meaning.LOST
    if isinstance(original, pymysql.IntegrityError | pymysql.DataError):
        return Meaning.REFUSED
    return Meaning.OUTAGE if number in _UNASKED else Meaning.FAILED


def cause_of(error: BaseException | None) -> tuple[Cause, str]:
    cause = _CAUSES.get(number_of(error), Cause.OTHER)
    make = "`CREATE DATABASE name CHARACTER SET utf8mb4`, `GRANT ALL ON name.* TO user`"
    return cause, make if cause is Cause.PLACE else ""


def explain(error: SQLAlchemyError) -> str:
    if isinstance(error, PoolTimeout):
        return f"all connections of this process are in use ({error})"
    original, number = _original(error), number_of(error)
    advice = _tls_trouble(original) or _ADVICE.get(number)
    if advice is None and meaning_of(error) is Meaning.LOST:
        advice = "the connection was lost"
    if advice is None and isinstance(original, pymysql.InternalError) and not number:
        advice = "what answers there is not understood"  # packets of something else
    said = said_by(error)
    return f"{advice} ({said})" if advice else said


def said_by(error: BaseException | None) -> str:
    """Give the server's or the driver's own words, without the user."""
    original = _original(error)
    return _USER.sub("this user", " ".join(map(str, original.args))) if original else ""


def none_usable(refusals: Sequence[Exception], text: str) -> Exception:
    """Make one error of several hosts', with the number of one that answered, if any did."""
    absent = {0, CR.CR_CONN_HOST_ERROR}
    numbers = (number for number in map(number_of, refusals) if number not in absent)
    return pymysql.OperationalError(next(numbers, CR.CR_CONN_HOST_ERROR), text)


def _original(error: BaseException | None) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else error


def _tls_trouble(error: BaseException | None) -> str | None:
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
