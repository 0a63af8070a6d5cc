"""Sessions with PostgreSQL.

They depend on no administrator's settings: time zone, isolation, forms and waits are ours; nor on
the environment variables and files in a home that the driver would read.
"""

import ssl
from collections.abc import Generator
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg
from psycopg.adapt import Dumper, Loader
from sqlalchemy import Engine, create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg, PGIdentifierPreparer_psycopg

from cronhare.adapters import tls
from cronhare.domain.addresses import Host, LedgerServer, Tls

from ...tables.types import read_moment as read_written
from ..servers import ANSWER_SECONDS, CONNECT_SECONDS, IDLE_SECONDS, LOCK_SECONDS, Sessions
from . import errors
from .schema import COLLATION

T = TypeVar("T")

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


# One session: how long it waits for an answer, and how values travel

#: PostgreSQL refuses NUL in texts, which tasks may write: this sign is kept in its place.
NUL: Final = "\N{SYMBOL FOR NULL}"


class Session(psycopg.Connection[Any]):
    """A session that waits *answer_seconds* for an answer and no longer."""

    answer_seconds: float | None = None

    def wait(
        self, gen: Generator[Any, Any, T], interval: float = 0.1, timeout: float | None = None
    ) -> T:
        """Wait as the driver does; a server that does not answer in time is left.

        Raises:
            psycopg.OperationalError: it did not, and the session is closed.
        """
        seconds = self.answer_seconds if timeout is None else timeout
        try:
            return super().wait(gen, interval, seconds)
        except psycopg.errors._WaitTimeout as error:  # noqa: SLF001 - it has no other name
            self.pgconn.finish()
            text = f"the server did not answer within {seconds:g} s"
            raise psycopg.OperationalError(text) from error


@lru_cache(maxsize=1024)
def read_moment(said: bytes) -> datetime | str:
    """Read a moment; `infinity`, and a year that Python has not, is none and stays as it is.

    A busy minute has few different moments.
    """
    text = said.decode()
    return read_written(text) or text


class Moment(Loader):
    """Reads a timestamp with a time zone; the session's is UTC."""

    def load(self, data: Any) -> datetime | str:  # noqa: ANN401 - a buffer
        return read_moment(bytes(data))


class Text(Dumper):
    """Writes text, without NUL."""

    def dump(self, obj: str) -> bytes:
        return (obj.replace("\0", NUL) if "\0" in obj else obj).encode()


# Names without quotes, which PostgreSQL folds: `Scheduler` to `scheduler`, in people's SQL, too. A
# table whose name was quoted could not be found by a person who writes it plainly.

#: How SQLAlchemy's dialect with such names is called in a URL.
DRIVER: Final = "postgresql+cronhare"


class PlainNames(PGIdentifierPreparer_psycopg):
    """Writes names without quotes."""

    def _requires_quotes(self, value: str) -> bool:
        return super()._requires_quotes(value if value == COLLATION else value.lower())


class PlainDialect(PGDialect_psycopg):
    """SQLAlchemy's dialect for psycopg, which looks for names as the server has folded them."""

    preparer = PlainNames
    supports_statement_cache = True

    def has_table(self, connection: Any, table_name: str, *args: Any, **more: Any) -> Any:  # noqa: ANN401
        return super().has_table(connection, table_name.lower(), *args, **more)  # type: ignore[no-untyped-call]

    def get_indexes(self, connection: Any, table_name: str, *args: Any, **more: Any) -> Any:  # noqa: ANN401
        return super().get_indexes(connection, table_name.lower(), *args, **more)  # type: ignore[no-untyped-call]


registry.register("postgresql.cronhare", __name__, PlainDialect.__name__)


# Sessions with any of the hosts


class PostgresqlSessions(Sessions):
    """Sessions of PostgreSQL."""

    errors = errors

    def __init__(self, server: LedgerServer) -> None:
        """Connects to nothing yet.

        Raises:
            ValueError: the certificates that the address names cannot be read.
        """
        super().__init__(server)
        if server.certificates.named:
            tls.client_context(server.certificates)  # the driver would read them late

    def make_engine(self, **options: Any) -> Engine:  # noqa: ANN401
        return create_engine(f"{DRIVER}://", use_native_hstore=False, **options)

    def open(self, host: Host, answer_seconds: int | None) -> Session:
        session = Session.connect(autocommit=True, **self._options(host))
        try:
            session.answer_seconds = CONNECT_SECONDS
            session.execute(_SESSION)
            if answer_seconds is not None:
                session.execute(f"SET statement_timeout = '{answer_seconds}s'")
            session.adapters.register_loader("timestamptz", Moment)
            session.adapters.register_dumper(str, Text)
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
            case Tls.OFFERED:
                return {**own, "sslmode": "prefer"}
            case Tls.OFF:
                return {"sslmode": "disable"}


def _roots() -> str:
    """Find the roots that this machine trusts: the driver's own OpenSSL looks elsewhere."""
    known: str | None = ssl.get_default_verify_paths().cafile
    for path in (known, *_ROOTS):
        if path and Path(path).is_file():
            return path
    return "system"
