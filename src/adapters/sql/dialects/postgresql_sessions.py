"""Sessions with PostgreSQL, and what its errors mean.

Sessions depend on no administrator's settings: time zone, isolation, forms and waits are ours; nor
on the environment variables and files in a home that the driver would read.
"""

import re
import ssl
from collections.abc import Generator, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg
from psycopg.adapt import Dumper, Loader
from sqlalchemy import Engine, create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg, PGIdentifierPreparer_psycopg
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from cronhare.adapters import tls
from cronhare.adapters.addresses import LedgerServer, Tls
from cronhare.domain.addresses import Host
from cronhare.ports.inspection import Cause

from ..dialect import Meaning
from ..tables.types import read_moment as read_written
from .servers import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    IDLE_SECONDS,
    LOCK_SECONDS,
    ServerErrors,
    Sessions,
    original,
)

# What errors mean

DEADLOCK: Final = "40P01"
LOCK_NOT_AVAILABLE: Final = "55P03"
UNIQUE_VIOLATION: Final = "23505"
READ_ONLY: Final = "25006"

#: What a state means, by how it begins. The transaction is rolled back by the server, or by us
#: after any error.
_MEANINGS: Final = {
    "40": Meaning.TAKEN_BACK,
    LOCK_NOT_AVAILABLE: Meaning.LOCKED,
    UNIQUE_VIOLATION: Meaning.DUPLICATE,
    # The server was shut down or restarted, or it has ended our session.
    **dict.fromkeys(("08", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04"), Meaning.LOST),
    READ_ONLY: Meaning.NO_WRITES,
    "53": Meaning.OUTAGE,  # a disk or a memory is full, or there are too many sessions
    "2200H": Meaning.OUTAGE,  # a table has given away its last number
    "57014": Meaning.OUTAGE,  # it took too long, or somebody cancelled it: no row is to blame
    **dict.fromkeys(("42P01", "42703"), Meaning.MISSING),  # no such table, no such column
    **dict.fromkeys(("22", "23", "P0001"), Meaning.REFUSED),  # the last is a trigger's RAISE
}

_CAUSES: Final = {"28": Cause.LOGIN, "3D000": Cause.PLACE, "42501": Cause.PLACE}

_ADVICE: Final = {
    DEADLOCK: "it met others again and again: look at the server's log",
    LOCK_NOT_AVAILABLE: "somebody keeps rows or a table locked: look in pg_stat_activity for a "
    "transaction that was left open",
    READ_ONLY: "the server only reads: name the primary in the URL",
    "28": "the server refuses this user or password: look at the URL, and at pg_hba.conf",
    "3D000": "there is no such database: CREATE DATABASE it",
    "42501": "this user lacks a privilege: GRANT what its role needs (operators.md, Rights)",
    "42601": "the server does not understand us: PostgreSQL 14 is needed, or newer",
    "53100": "the server's disk is full: make room, and it goes on by itself",
    "53300": "the server has too many connections: raise max_connections",
    "57P03": "the server starts or stops just now",
}

#: What a server says to a login has no state in the driver: it is read from the sentence.
_STATES_SAID: Final = {
    "password authentication failed|no password supplied": "28P01",
    "no pg_hba.conf entry|authentication failed|is not permitted to log in": "28000",
    'role "[^"]*" does not exist': "28000",
    "too many|remaining connection slots": "53300",
    "the database system is": "57P03",
    "session is read-only": READ_ONLY,
    'database "[^"]*" does not exist': "3D000",
}

_CANNOT_REACH: Final = re.compile(
    r"could not translate|Name or service|Connection refused|No route|Network is unreachable|"
    r"No such file|timeout expired|could not connect|failed to resolve"
)

_TLS_TROUBLE: Final = {
    "certificate verify failed|does not match host name": "its certificate is refused. Name the CA "
    "that signed it by ?ssl_ca=/path/ca.pem, and the server as its certificate does",
    "server does not support SSL|SSL error": "the server speaks no TLS that we accept: turn it on "
    "there (ssl, ssl_cert_file, ssl_key_file), or add ?tls=off to the URL if the network between "
    "is your own",
    "authentication method requirement": "what answers there asks for the password in clear text, "
    "and could be anybody: have it verified (?ssl_ca=/path/ca.pem), or name its socket "
    "(?unix_socket=)",
}

#: A user in a sentence of the server's: a mistyped URL may have a password there.
_USER: Final = re.compile(r'((?:user|role) )"[^"]*"', re.IGNORECASE)


def state_of(error: BaseException | None) -> str:
    """Read an error's SQLSTATE; empty where it has none, as of a connection that is gone."""
    failure = original(error)
    if not isinstance(failure, psycopg.Error):
        return ""
    return failure.sqlstate or _first_found(_STATES_SAID, str(failure)) or ""


class PostgresqlErrors(ServerErrors):
    """Tells the errors of PostgreSQL by their SQLSTATE."""

    def meaning_of(self, error: BaseException | None) -> Meaning:
        if state := state_of(error):
            found = (each for known, each in _MEANINGS.items() if state.startswith(known))
            return next(found, Meaning.FAILED)
        is_lost = isinstance(
            original(error), psycopg.OperationalError | psycopg.InterfaceError
        ) or (isinstance(error, DBAPIError) and error.connection_invalidated)
        return Meaning.LOST if is_lost else Meaning.OUTAGE

    def cause_of(self, error: BaseException | None) -> tuple[Cause, str]:
        if self._is_absent(error):
            return Cause.ABSENT, ""
        state = state_of(error)
        cause = next((c for known, c in _CAUSES.items() if state.startswith(known)), Cause.OTHER)
        return cause, "`CREATE DATABASE name OWNER user`" if cause is Cause.PLACE else ""

    def advice_for(self, error: SQLAlchemyError) -> tuple[str | None, str]:
        said, state = self.said_by(error), state_of(error)
        if trouble := _first_found(_TLS_TROUBLE, said):
            return trouble, said
        advice = next((each for known, each in _ADVICE.items() if state.startswith(known)), None)
        if advice is None and self._is_absent(error):
            advice = "the server cannot be reached: see that it runs, and that the URL names it"
        elif advice is None and self.meaning_of(error) is Meaning.LOST:
            advice = "the connection was lost, or the server did not answer in time"
        return advice, f"{state} {said}".strip()

    def said_by(self, error: BaseException | None) -> str:
        words = " ".join(str(original(error) or "").split())
        return _USER.sub(r"\1", words).replace("  ", " ")

    def none_usable(self, refusals: Sequence[Exception], text: str) -> Exception:  # noqa: ARG002
        return psycopg.OperationalError(text)

    def _is_absent(self, error: BaseException | None) -> bool:
        return not state_of(error) and _CANNOT_REACH.search(self.said_by(error)) is not None


def _first_found(known: dict[str, str], said: str) -> str | None:
    return next((each for pattern, each in known.items() if re.search(pattern, said)), None)


# Sessions

T = TypeVar("T")

#: Texts are compared byte by byte, and an index of them outlives an upgrade of the system's own
#: collations.
COLLATION: Final = "C"

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
        """Wait as the driver does; a server that does not answer in time is left."""
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

    errors = PostgresqlErrors()

    def __init__(self, server: LedgerServer) -> None:
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
