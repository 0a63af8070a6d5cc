"""Sessions with MySQL and MariaDB, and the pool that keeps them.

They depend on no administrator's settings: time zone, isolation, strictness and character set are
ours.
"""

import ssl
from typing import Any, Final

import pymysql
from pymysql.constants import FIELD_TYPE
from sqlalchemy import URL, Engine, create_engine

from cronhare.adapters import tls
from cronhare.domain.addresses import Host, LedgerServer, Tls

from ..sessions import IDLE_SECONDS, LOCK_SECONDS, Sessions
from . import errors, reading
from .bounded_session import BoundedSession, is_understood, not_understood
from .hosts import MysqlHosts
from .login import REFUSING_THE_PASSWORD

#: Strict, or too long a text would be cut in silence. Zero dates, which strict modes refuse as
#: well, may stand in rows that people wrote: the plans quote them.
SQL_MODE: Final = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

_SESSION: Final = (
    f"SET time_zone = '+00:00', sql_mode = '{SQL_MODE}'",
    f"SET innodb_lock_wait_timeout = {LOCK_SECONDS}, wait_timeout = {IDLE_SECONDS}",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    # MariaDB makes a join of an IN with 1,000 values, which reads all rows of a small table and
    # keeps them locked: whoever passes over what others hold would find none of its own.
    # From 11.6.2 on an UPDATE with a subquery would fail (1020) beside somebody who writes.
    (
        "SET /*M!100303 in_predicate_conversion_threshold = 0, */"
        " /*M!110600 innodb_snapshot_isolation = OFF, */ @cronhare = NULL"
    ),
)

_CONVERSIONS: Final[dict[Any, Any]] = {
    **pymysql.converters.conversions,
    FIELD_TYPE.DATETIME: reading.read_moment,
    FIELD_TYPE.TIMESTAMP: reading.read_moment,
}


class MysqlSessions(Sessions[BoundedSession]):
    """Sessions of MariaDB and MySQL."""

    errors = errors
    hosts = MysqlHosts

    def __init__(self, server: LedgerServer) -> None:
        """Connects to nothing yet.

        Raises:
            ValueError: the certificates that the address names cannot be read.
        """
        super().__init__(server)
        self._verifying = None
        if any(server.tls_to(host) is Tls.VERIFIED for host in server.hosts):
            self._verifying = tls.client_context(server.certificates)
            # What MySQL makes for itself does not pass the strictest reading of RFC 5280.
            self._verifying.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def make_engine(self, **options: Any) -> Engine:  # noqa: ANN401
        url = URL.create("mysql+pymysql", database=self.server.database)
        return create_engine(url, **options)

    def open(self, host: Host, answer_seconds: int | None) -> BoundedSession:
        try:
            return self._greeted(host, answer_seconds)
        except Exception as error:
            if not is_understood(error):
                raise not_understood(str(host), error) from error
            error.args = errors.without_user(error.args)
            raise

    def prepare(self, session: BoundedSession, answer_seconds: int | None) -> None:
        for statement in _SESSION:
            session.ask(statement)
        # A node of a Galera cluster is to see what was committed on another, before each statement.
        # Or the start fence, on its node, would not find what a scheduler has claimed on its own.
        if session.ask("SHOW SESSION VARIABLES LIKE 'wsrep_on'").get("wsrep_on") == "ON":
            session.ask("SET SESSION wsrep_sync_wait = 7")
        session.opened(answer_seconds=answer_seconds)

    def _greeted(self, host: Host, answer_seconds: int | None) -> BoundedSession:
        server, seconds = self.server, self.connect_seconds
        return BoundedSession(
            place=str(host),
            opening_seconds=2 * seconds,
            host=host.name,
            port=host.port,
            unix_socket=server.unix_socket,
            user=server.url.user,
            # As bytes: of a text the driver would make Latin-1, and fail over what that lacks.
            password=(server.url.password or "").encode(),
            database=server.database,
            charset="utf8mb4",
            connect_timeout=seconds,
            read_timeout=2 * seconds,
            write_timeout=answer_seconds,
            # Without FOUND_ROWS a duplicate that is left as it is counts 0, so that the number
            # of affected rows is the number of those inserted.
            client_flag=0,
            conv=_CONVERSIONS,
            auth_plugin_map={} if server.is_proven(host) else REFUSING_THE_PASSWORD,
            **self._tls(host),
        )

    def _tls(self, host: Host) -> dict[str, Any]:
        match self.server.tls_to(host):
            case Tls.VERIFIED:
                return {"ssl": self._verifying}
            case Tls.OFF:
                return {"ssl_disabled": True}
            case Tls.OFFERED:
                return {}
