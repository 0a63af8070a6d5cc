"""Sessions with MySQL and MariaDB, and what their errors mean.

Sessions depend on no administrator's settings: time zone, isolation, strictness and character set
are ours.
"""

import re
import ssl
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import pymysql
from pymysql.constants import CR, ER, FIELD_TYPE
from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from cronhare.adapters import tls
from cronhare.adapters.addresses import LedgerServer, Tls
from cronhare.domain.addresses import Host
from cronhare.ports.inspection import Cause

from ..dialect import Meaning
from ..tables.types import read_moment as read_written
from .servers import IDLE_SECONDS, LOCK_SECONDS, ServerErrors, Sessions, original

# What errors mean

DEADLOCK: Final = 1213
LOCK_WAIT_TIMEOUT: Final = 1205
CHANGED_SINCE_READ: Final = 1020
DUPLICATE: Final = 1062
NO_NUMBER: Final = 1467
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
        (3, 167, 1021, 1026, 1037, 1038, 1041, 1114, 1135, 1180, 1317, 1969, 3024),
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

_ADVICE: Final = {
    NO_NUMBER: "somebody keeps others from inserting into a table",
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
    error = original(error)
    if isinstance(error, pymysql.MySQLError) and error.args and isinstance(error.args[0], int):
        return error.args[0]
    return 0


class MysqlErrors(ServerErrors):
    """Tells the errors of MySQL and MariaDB by their numbers."""

    def meaning_of(self, error: BaseException | None) -> Meaning:
        failure, number = original(error), number_of(error)
        if number in _MEANINGS:
            return _MEANINGS[number]
        if isinstance(failure, pymysql.InterfaceError) or (
            isinstance(error, DBAPIError) and error.connection_invalidated
        ):
            return Meaning.LOST
        if isinstance(failure, pymysql.IntegrityError | pymysql.DataError):
            return Meaning.REFUSED
        return Meaning.OUTAGE if number in _UNASKED else Meaning.FAILED

    def cause_of(self, error: BaseException | None) -> tuple[Cause, str]:
        cause = _CAUSES.get(number_of(error), Cause.OTHER)
        make = "`CREATE DATABASE name CHARACTER SET utf8mb4`, `GRANT ALL ON name.* TO user`"
        return cause, make if cause is Cause.PLACE else ""

    def advice_for(self, error: SQLAlchemyError) -> tuple[str | None, str]:
        failure, number = original(error), number_of(error)
        advice = _tls_trouble(failure) or _ADVICE.get(number)
        if advice is None and self.meaning_of(error) is Meaning.LOST:
            advice = "the connection was lost"
        if advice is None and isinstance(failure, pymysql.InternalError) and not number:
            advice = "what answers there is not understood"  # packets of something else
        return advice, self.said_by(error)

    def said_by(self, error: BaseException | None) -> str:
        failure = original(error)
        return _USER.sub("this user", " ".join(map(str, failure.args))) if failure else ""

    def none_usable(self, refusals: Sequence[Exception], text: str) -> Exception:
        absent = {0, CR.CR_CONN_HOST_ERROR}
        numbers = (number for number in map(number_of, refusals) if number not in absent)
        return pymysql.OperationalError(next(numbers, CR.CR_CONN_HOST_ERROR), text)


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


# Sessions

#: Strict, or too long a text would be cut in silence. Zero dates, which strict modes refuse as
#: well, may stand in rows that people wrote: the plans quote them.
SQL_MODE: Final = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

#: MariaDB makes a join of an IN with 1,000 values, which reads all rows of a small table and keeps
#: them locked: whoever passes over what others hold would find none of its own. From 11.6.2 on an
#: UPDATE with a subquery would fail (1020) beside somebody who writes.
_SESSION: Final = (
    (
        f"SET time_zone = '+00:00', sql_mode = '{SQL_MODE}', "
        f"innodb_lock_wait_timeout = {LOCK_SECONDS}, wait_timeout = {IDLE_SECONDS} "
        "/*M!100303 , in_predicate_conversion_threshold = 0 */ "
        "/*M!110600 , innodb_snapshot_isolation = OFF */"
    ),
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)

#: What decides whether a server takes writes, and whether it is a node of a Galera cluster.
_READ_ONLY: Final = ("read_only", "innodb_read_only")
_STANDING: Final = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN {(*_READ_ONLY, 'wsrep_on')}"


@lru_cache(maxsize=1024)
def read_moment(said: str) -> datetime | str:
    """Read a moment, in a column for moments or for text; a zero date is none, and stays as it is.

    The driver's own reading takes ten times as long, and a busy minute has few different moments.
    """
    try:
        return datetime.fromisoformat(f"{said}+00:00")
    except ValueError:
        return read_written(said) or said


_CONVERSIONS: Final[dict[Any, Any]] = {
    **pymysql.converters.conversions,
    FIELD_TYPE.DATETIME: read_moment,
    FIELD_TYPE.TIMESTAMP: read_moment,
}


class Refused:
    """Stands for a plugin of the driver's that sends the password in clear text, and sends nothing.

    While the server is down, any user of its machine can answer at its port, and ask for it.
    """

    def __init__(self, _: "pymysql.Connection[Any]") -> None:
        text = (
            "what answers there asks for the password in clear text, and could be anybody: have it "
            "verified (?ssl_ca=/path/ca.pem), or name its socket (?unix_socket=)"
        )
        raise pymysql.OperationalError(CR.CR_AUTH_PLUGIN_ERR, text)


IN_CLEAR_TEXT: Final = ("mysql_clear_password", "dialog")


class Session(pymysql.Connection):
    """A session of the driver."""

    def _create_ssl_ctx(self, sslp: object) -> ssl.SSLContext:
        """Read no trusted roots, which takes 50 ms, for TLS that is offered and not verified."""
        if isinstance(sslp, ssl.SSLContext):
            return sslp
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context


class MysqlSessions(Sessions):
    """Sessions of MariaDB and MySQL."""

    errors = MysqlErrors()

    def __init__(self, server: LedgerServer) -> None:
        super().__init__(server)
        self._verifying = None
        if any(server.tls_to(host) is Tls.VERIFIED for host in server.hosts):
            self._verifying = tls.client_context(server.certificates)
            # What MySQL makes for itself does not pass the strictest reading of RFC 5280.
            self._verifying.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def make_engine(self, **options: Any) -> Engine:  # noqa: ANN401
        url = URL.create("mysql+pymysql", database=self.server.database)
        return create_engine(url, **options)

    def open(self, host: Host, answer_seconds: int | None) -> Session:
        session = self._logged_in(host, answer_seconds)
        try:
            self._set_up(session)
        except BaseException:
            session.close()
            raise
        vars(session)["_read_timeout"] = answer_seconds
        return session

    def _set_up(self, session: Session) -> None:
        """Make its settings ours; of several hosts, one that takes no writes is refused.

        A node of a Galera cluster is to see what was committed on another, before each statement.
        Or the start fence, on its node, would not find what a scheduler has claimed on its own.
        """
        with session.cursor() as cursor:
            for statement in (*_SESSION, _STANDING):
                cursor.execute(statement)
            said = dict(cursor.fetchall())
            for name in _READ_ONLY if self.has_other_hosts else ():
                if said.get(name, "OFF") != "OFF":
                    text = f"it only reads ({name} is {said[name]})"
                    raise pymysql.OperationalError(ER.OPTION_PREVENTS_STATEMENT, text)
            if said.get("wsrep_on") == "ON":
                cursor.execute("SHOW STATUS LIKE 'wsrep_ready'")
                if cursor.fetchall() != (("wsrep_ready", "ON"),):
                    text = "it has lost its cluster, or is not in it yet (wsrep_ready is OFF)"
                    raise pymysql.OperationalError(NOT_READY, text)
                cursor.execute("SET SESSION wsrep_sync_wait = 7")

    def _logged_in(self, host: Host, answer_seconds: int | None) -> Session:
        server, seconds = self.server, self.connect_seconds
        encryption: dict[Tls, dict[str, Any]] = {
            Tls.VERIFIED: {"ssl": self._verifying},
            Tls.OFFERED: {},
            Tls.OFF: {"ssl_disabled": True},
        }
        return Session(
            host=host.name,
            port=host.port,
            unix_socket=server.unix_socket,
            user=server.url.user,
            # As bytes: of a text the driver would make Latin-1, and fail over what that lacks.
            password=(server.url.password or "").encode(),
            database=server.database,
            charset="utf8mb4",
            connect_timeout=seconds,
            read_timeout=seconds,
            write_timeout=answer_seconds,
            # Without FOUND_ROWS a duplicate that is left as it is counts 0, so that the number
            # of affected rows is the number of those inserted.
            client_flag=0,
            conv=_CONVERSIONS,
            auth_plugin_map={} if server.is_proven(host) else dict.fromkeys(IN_CLEAR_TEXT, Refused),
            **encryption[server.tls_to(host)],
        )
