"""Sessions with PostgreSQL, and the pool that keeps them.

They depend on nothing that an administrator may have set: time zone, isolation, forms and waits are
ours; nor on the environment, or files in a home, that the driver would read.
"""

import ssl
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, ExceptionContext, NullPool, QueuePool, create_engine, event

from cronhare.adapters import tls
from cronhare.domain.addresses import Host, LedgerServer, Tls

from . import errors
from .names import DRIVER
from .nodes import Nodes
from .session import Session
from .values import adapt

#: See MySQL's sessions: a silent server has to be noticed well before two thirds of a lease.
ANSWER_SECONDS: Final = 10
CONNECT_SECONDS: Final = 5

#: With several hosts one that is silent is passed over sooner: the others wait to be asked.
ONE_OF_SEVERAL_SECONDS: Final = 2

#: So long a statement waits for rows that others hold, and nobody of ours holds any that long.
LOCK_SECONDS: Final = 3

#: A transaction that says nothing for so long is ended by the server, so that what a host held when
#: it vanished is free again; so is a session whose host does not even answer the kernel.
IDLE_SECONDS: Final = 45

_SESSION: Final = "; ".join(
    (
        "SET TimeZone = 'UTC'",
        "SET DateStyle = 'ISO, YMD'",
        "SET default_transaction_isolation = 'read committed'",
        "SET standard_conforming_strings = on",
        "SET jit = off",  # to compile a statement takes longer than any of ours
        f"SET lock_timeout = '{LOCK_SECONDS}s'",
        f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'",
        f"SET tcp_keepalives_idle = {IDLE_SECONDS}",
    )
)

#: How a server may ask who we are. One that has proved nothing gets no password in clear text.
_ANY_PROOF: Final = "none,password,md5,scram-sha-256"
_NO_CLEAR_TEXT: Final = "!password"

#: Debian's, Red Hat's and SUSE's bundles of trusted roots, where OpenSSL's own path leads nowhere.
_ROOTS: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
)


class Sessions:
    """Makes sessions with one of the hosts of a database, and engines that keep them."""

    def __init__(self, server: LedgerServer) -> None:
        """Connects to nothing yet.

        Raises:
            ValueError: the certificates that the address names cannot be read.
        """
        self.server = server
        if server.certificates.named:
            tls.verifying(server.certificates)  # the driver would find out late that they are none

    @property
    def elsewhere(self) -> bool:
        """Whether there are other hosts, where what one refuses may be possible."""
        return len(self.server.hosts) > 1

    def pooled(self) -> Engine:
        """Make an engine that keeps its sessions. The last that was given back is lent first."""
        return self._engine(
            ANSWER_SECONDS,
            poolclass=QueuePool,
            pool_timeout=ANSWER_SECONDS,
            pool_use_lifo=True,
        )

    def patient(self) -> Engine:
        """Make an engine without a bound for answers, whose sessions end with their use."""
        return self._engine(None, poolclass=NullPool)

    def open(self, host: Host) -> Session:
        """Open a session with one host, and set it up.

        Raises:
            psycopg.Error: it is away, or refuses us.
        """
        session = Session.connect(autocommit=True, **self._options(host))
        try:
            session.answer_seconds = CONNECT_SECONDS
            session.execute(_SESSION)
            adapt(session)
        except BaseException:
            session.close()
            raise
        return session

    def _engine(self, answer_seconds: int | None, **pooling: Any) -> Engine:  # noqa: ANN401
        """Make an engine. Nothing is reset on return: our transactions end before.

        Its URL names the kind of database alone: it can give away no secret.
        """
        nodes = Nodes(self.server.hosts, self.open)

        def connected() -> Session:
            session = nodes.connect()
            session.answer_seconds = answer_seconds
            if answer_seconds is not None:
                session.execute(f"SET statement_timeout = '{answer_seconds}s'")
            session.autocommit = False
            return session

        engine = create_engine(
            f"{DRIVER}://",
            creator=connected,
            pool_reset_on_return=None,
            hide_parameters=True,
            use_native_hstore=False,
            **pooling,
        )
        event.listen(engine, "handle_error", self._note_loss)
        return engine

    def _options(self, host: Host) -> dict[str, Any]:
        """Give the driver's options; each is said, or the environment would say it."""
        server, seconds = self.server, ONE_OF_SEVERAL_SECONDS if self.elsewhere else CONNECT_SECONDS
        return {
            "host": server.unix_socket or host.name,
            "hostaddr": "",
            "port": host.port,
            "user": server.url.user,
            "password": server.url.password or "",
            "passfile": "/dev/null",
            "dbname": server.database,
            "options": "",
            "client_encoding": "UTF8",
            "application_name": "cronhare",
            "connect_timeout": seconds,
            "tcp_user_timeout": 1_000 * ANSWER_SECONDS,
            "keepalives_idle": IDLE_SECONDS,
            "target_session_attrs": "any",
            "gssencmode": "disable",
            "require_auth": _ANY_PROOF if server.is_proven(host) else _NO_CLEAR_TEXT,
            **self._tls(host),
        }

    def _tls(self, host: Host) -> dict[str, str]:
        named = self.server.certificates
        own = {
            "sslcertmode": "allow" if named.certificate else "disable",
            "sslcert": named.certificate or "",
            "sslkey": named.key or "",
        }
        match self.server.tls_to(host):
            case Tls.VERIFIED:
                return {**own, "sslmode": "verify-full", "sslrootcert": named.ca or _roots()}
            case Tls.OFF:
                return {"sslmode": "disable"}
            case Tls.OFFERED:
                return {**own, "sslmode": "prefer"}

    def _note_loss(self, context: ExceptionContext) -> None:
        """Let the pool throw away what SQLAlchemy does not know to be lost."""
        error = context.original_exception
        if errors.is_lost(error) or (self.elsewhere and errors.is_read_only(error)):
            context.is_disconnect = True


def _roots() -> str:
    """Find the roots that this machine trusts: the driver's own OpenSSL looks elsewhere."""
    known: str | None = ssl.get_default_verify_paths().cafile
    for path in (known, *_ROOTS):
        if path and Path(path).is_file():
            return path
    return "system"
