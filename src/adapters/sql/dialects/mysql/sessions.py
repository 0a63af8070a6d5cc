"""Sessions with MySQL and MariaDB, and the pool that keeps them.

They depend on no administrator's settings: time zone, isolation, strictness and character set are
ours.
"""

import ssl
from typing import Any, Final

import pymysql
from pymysql.constants import ER, FIELD_TYPE
from sqlalchemy import URL, Engine, create_engine

from cronhare.adapters import tls
from cronhare.domain.addresses import Host, LedgerServer, Tls

from ..sessions import IDLE_SECONDS, LOCK_SECONDS, Sessions
from . import errors, reading
from .login import REFUSING_THE_PASSWORD, Session

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

#: What decides whether a server takes writes, and whether it is a node of a Galera cluster.
_STANDING: Final = (
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'innodb_read_only', 'wsrep_on')"
)
_READ_ONLY: Final = ("read_only", "innodb_read_only")

_CONVERSIONS: Final[dict[Any, Any]] = {
    **pymysql.converters.conversions,
    FIELD_TYPE.DATETIME: reading.read_moment,
    FIELD_TYPE.TIMESTAMP: reading.read_moment,
}


class MysqlSessions(Sessions[Session]):
    """Sessions of MariaDB and MySQL."""

    errors = errors

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

    def open(self, host: Host, answer_seconds: int | None) -> Session:
        try:
            session = self._logged_in(host, answer_seconds)
            try:
                self._set_up(session)
            except BaseException:
                session.close()
                raise
        except pymysql.MySQLError as error:
            error.args = errors.without_user(error.args)
            raise
        vars(session)["_read_timeout"] = answer_seconds
        return session

    def _set_up(self, session: Session) -> None:
        """Make its settings ours; of several hosts, one that takes no writes is refused.

        A node of a Galera cluster is to see what was committed on another, before each statement.
        Or the start fence, on its node, would not find what a scheduler has claimed on its own.
        """
        with session.cursor() as cursor:
            for statement in _SESSION:
                cursor.execute(statement)
            cursor.execute(_STANDING)
            said = dict(cursor.fetchall())
            if self.has_other_hosts:
                for name in _READ_ONLY:
                    if said.get(name, "OFF") != "OFF":
                        text = f"it only reads ({name} is {said[name]})"
                        raise pymysql.OperationalError(ER.OPTION_PREVENTS_STATEMENT, text)
            if said.get("wsrep_on") == "ON":
                cursor.execute("SHOW STATUS LIKE 'wsrep_ready'")
                if cursor.fetchall() != (("wsrep_ready", "ON"),):
                    text = "it has lost its cluster, or is not in it yet (wsrep_ready is OFF)"
                    raise pymysql.OperationalError(errors.NOT_READY, text)
                cursor.execute("SET SESSION wsrep_sync_wait = 7")

    def _logged_in(self, host: Host, answer_seconds: int | None) -> Session:
        server, seconds = self.server, self.connect_seconds
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
