"""Sessions with PostgreSQL, and the pool that keeps them.

They depend on no administrator's settings: time zone, isolation, forms and waits are ours. Nor do
they on the environment, or on files in a home, that the driver would read.
"""

import ssl
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, create_engine

from cronhare.adapters import tls
from cronhare.domain.addresses import Host, LedgerServer, Tls

from ..sessions import ANSWER_SECONDS, CONNECT_SECONDS, IDLE_SECONDS, LOCK_SECONDS, Sessions
from . import errors
from .names import DRIVER
from .session import Session

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


class PostgresqlSessions(Sessions[Session]):
    """Sessions of PostgreSQL."""

    errors = errors

    def __init__(self, server: LedgerServer) -> None:
        """Connects to nothing yet.

        Raises:
            ValueError: the certificates that the address names cannot be read.
        """
        super().__init__(server)
        if server.certificates.named:
            tls.client_context(
                server.certificates
            )  # the driver would find out late that they are none

    def make_engine(self, **options: Any) -> Engine:  # noqa: ANN401
        return create_engine(f"{DRIVER}://", use_native_hstore=False, **options)

    def open(self, host: Host, answer_seconds: int | None) -> Session:
        session = Session.connect(autocommit=True, **self._options(host))
        try:
            session.answer_seconds = CONNECT_SECONDS
            session.execute(_SESSION)
            if answer_seconds is not None:
                session.execute(f"SET statement_timeout = '{answer_seconds}s'")
            session.adapt_values()
            session.autocommit = False
        except BaseException:
            session.close()
            raise
        session.answer_seconds = answer_seconds
        return session

    def _options(self, host: Host) -> dict[str, Any]:
        """Give the driver's options; each is said, or the environment would say it."""
        server = self.server
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
            "connect_timeout": self.connect_seconds,
            "tcp_user_timeout": 1_000 * ANSWER_SECONDS,
            "keepalives_idle": IDLE_SECONDS,
            "target_session_attrs": "read-write" if self.has_other_hosts else "any",
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


def _roots() -> str:
    """Find the roots that this machine trusts: the driver's own OpenSSL looks elsewhere."""
    known: str | None = ssl.get_default_verify_paths().cafile
    for path in (known, *_ROOTS):
        if path and Path(path).is_file():
            return path
    return "system"
