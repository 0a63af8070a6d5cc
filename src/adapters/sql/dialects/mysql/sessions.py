"""Sessions with MySQL and MariaDB, and the pool that keeps them.

They depend on nothing that an administrator may have set: time zone, isolation, strictness and
character set are ours.
"""

from typing import Any, Final

import pymysql
from pymysql.constants import FIELD_TYPE
from sqlalchemy import URL, Engine, ExceptionContext, NullPool, QueuePool, create_engine, event

from cronhare.domain.addresses import Host, LedgerServer, Tls

from . import errors, reading
from .nodes import Nodes
from .opening import Opening, is_understood, not_understood
from .passwords import REFUSING_THE_PASSWORD
from .tls import verifying

#: So long the server may take for an answer. A worker whose lease could not be renewed for two
#: thirds of its 30 s ends its tasks: a silent server has to be noticed well before.
ANSWER_SECONDS: Final = 10
CONNECT_SECONDS: Final = 5

#: With several hosts one that is silent is passed over sooner: the others wait to be asked.
ONE_OF_SEVERAL_SECONDS: Final = 2

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

_CONVERSIONS: Final[dict[Any, Any]] = {
    **pymysql.converters.conversions,
    FIELD_TYPE.DATETIME: reading.read_moment,
    FIELD_TYPE.TIMESTAMP: reading.read_moment,
}


class Sessions:
    """Makes sessions with one of the hosts of a database, and engines that keep them."""

    def __init__(self, server: LedgerServer) -> None:
        """Connects to nothing yet.

        Raises:
            ValueError: the certificates that the address names cannot be read.
        """
        self.server = server
        verified = any(server.tls_to(host) is Tls.VERIFIED for host in server.hosts)
        self._verifying = verifying(server) if verified else None

    @property
    def elsewhere(self) -> bool:
        """Whether there are other hosts, where what one refuses may be possible."""
        return len(self.server.hosts) > 1

    def pooled(self) -> Engine:
        """Make an engine that keeps its sessions. The last that was given back is lent first.

        So one stays awake. What is lent is not tested: a session that was lost is found out by
        its first statement, thrown away with all that are older, and the call repeated.
        """
        return self._engine(
            ANSWER_SECONDS,
            poolclass=QueuePool,
            pool_timeout=ANSWER_SECONDS,
            pool_use_lifo=True,
        )

    def patient(self) -> Engine:
        """Make an engine without a bound for answers, whose sessions end with their use."""
        return self._engine(None, poolclass=NullPool)

    def _engine(self, answer_seconds: int | None, **pooling: Any) -> Engine:  # noqa: ANN401
        """Make an engine. Nothing is reset on return: our transactions end before.

        Its URL names the kind of database alone: it can give away no secret.
        """
        nodes = Nodes(self.server.hosts, lambda host: self._open(host, answer_seconds))

        def connected() -> Opening:
            session = nodes.connect()
            try:
                prepare(session)
            except BaseException:
                session.close()
                raise
            session.opened(answer_seconds=answer_seconds)
            return session

        url = URL.create("mysql+pymysql", database=self.server.database)
        engine = create_engine(
            url, creator=connected, pool_reset_on_return=None, hide_parameters=True, **pooling
        )
        event.listen(engine, "handle_error", self._note_loss)
        return engine

    def _open(self, host: Host, answer_seconds: int | None) -> Opening:
        """Open a session with one host.

        Raises:
            pymysql.MySQLError: it is away, or refuses us.
        """
        seconds = ONE_OF_SEVERAL_SECONDS if self.elsewhere else CONNECT_SECONDS
        try:
            session = self._greeted(host, seconds, answer_seconds)
        except Exception as error:
            if not is_understood(error):
                raise not_understood(str(host), error) from error
            error.args = errors.without_user(error.args)
            raise
        return session

    def _greeted(self, host: Host, seconds: int, answer_seconds: int | None) -> Opening:
        server = self.server
        return Opening(
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

    def _note_loss(self, context: ExceptionContext) -> None:
        """Let the pool throw away what SQLAlchemy does not know to be lost."""
        error = context.original_exception
        if errors.is_lost(error) or (self.elsewhere and errors.is_read_only(error)):
            context.is_disconnect = True


def prepare(session: Opening) -> None:
    """Set up a new session."""
    for statement in _SESSION:
        session.ask(statement)
    _wait_for_the_others(session)


def _wait_for_the_others(session: Opening) -> None:
    """Let a node of a Galera cluster see what was committed on another, before each statement.

    Or the start fence, on its node, would not find what a scheduler has claimed on its own.
    """
    if session.ask("SHOW SESSION VARIABLES LIKE 'wsrep_on'").get("wsrep_on") == "ON":
        session.ask("SET SESSION wsrep_sync_wait = 7")
