"""Where the ledger is kept: a file, or a database on one of several servers."""

import enum
from typing import Final

import attrs

from .certificates import OF_LEDGER, Certificates
from .server_url import Host, ServerUrl

FILE_EXAMPLE: Final = "sqlite:///cronhare.sqlite3"


@attrs.frozen
class Kind:
    """A kind of database on a server: its name, how an address is written, and its usual port."""

    name: str
    schemes: tuple[str, ...]
    port: int

    @property
    def example(self) -> str:
        """How an address of this kind is written."""
        return f"{self.schemes[0]}://user:password@host/database"


KINDS: Final = (
    Kind("mysql", ("mysql+pymysql", "mysql", "mariadb+pymysql", "mariadb"), 3306),
    Kind("postgresql", ("postgresql+psycopg", "postgresql"), 5432),
)
_KIND_OF: Final = {scheme: kind for kind in KINDS for scheme in kind.schemes}
_PORTS: Final = {scheme: kind.port for scheme, kind in _KIND_OF.items()}
_TLS: Final = {"verified", "off"}
_OPTIONS: Final = ("tls", *OF_LEDGER, "unix_socket")


class Tls(enum.Enum):
    """How a link to a server is kept from others."""

    VERIFIED = "verified"  # certificate and host name are, or there is no connection
    OFFERED = "offered"  # taken where the server offers it; on one machine none is in between
    OFF = "off"  # plain text, by explicit wish


@attrs.frozen
class LedgerFile:
    """An SQLite file."""

    path: str

    def __str__(self) -> str:
        return f"sqlite:///{self.path}"


@attrs.frozen(kw_only=True)
class LedgerServer:
    """A database on a server. Printed, it shows no user and no password.

    *kind* is SQLAlchemy's name for what the server is; *tls* is None unless the URL says it.
    """

    kind: str

    url: ServerUrl
    database: str
    certificates: Certificates
    tls: Tls | None = None
    unix_socket: str | None = None

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Those of whom any will do that takes writes."""
        return self.url.hosts

    def tls_to(self, host: Host) -> Tls:
        """Decide how to speak to a host: verified, unless it is this machine, or the URL says."""
        if self.tls is not None:
            return self.tls
        if self.unix_socket is not None:
            return Tls.OFFERED
        wanted = not host.is_local or self.certificates.named
        return Tls.VERIFIED if wanted else Tls.OFFERED

    def is_proven(self, host: Host) -> bool:
        """Tell whether the link itself proves who answers: a certificate, or a socket's place."""
        return self.unix_socket is not None or self.tls_to(host) is Tls.VERIFIED

    def __str__(self) -> str:
        return str(self.url)


def parse_ledger(url: str) -> LedgerFile | LedgerServer:
    """Read `sqlite:///path`, or `mysql+pymysql://user:password@host,host:3307/database?tls=off`.

    Raises:
        ValueError: the ledger cannot be kept there; the text quotes nothing of it.
    """
    if url.lower().startswith("sqlite"):
        return _file(url)
    try:
        parsed = ServerUrl.parse(
            url, ports=_PORTS, options=_OPTIONS, example=KINDS[0].example, host="localhost"
        )
    except ValueError as error:
        if str(error).startswith("must be like"):
            *some, last = [FILE_EXAMPLE, *(kind.example for kind in KINDS)]
            allowed = ", ".join(f'"{each}"' for each in some)
            raise ValueError(f'must be like {allowed} or "{last}"') from None
        raise
    return _server(parsed)


def _file(url: str) -> LedgerFile:
    head, path = url[: len("sqlite:///")], url[len("sqlite:///") :]
    if head.lower() != "sqlite:///":
        raise ValueError(
            "an SQLite URL has no user, no host and no driver; "
            f'it must name a file, like "{FILE_EXAMPLE}"'
        )
    if "?" in path or "#" in path:
        raise ValueError(f'an SQLite URL has no options; it must be like "{FILE_EXAMPLE}"')
    if path in {"", ":memory:"}:
        raise ValueError("a ledger in memory would be lost with its process; name a file")
    if path.startswith("file:") or any(ord(sign) < 0x20 for sign in path):  # noqa: PLR2004 - ASCII's
        raise ValueError("an SQLite URL names a file by a plain path, without control characters")
    return LedgerFile(path)


def _server(url: ServerUrl) -> LedgerServer:
    if not url.place or "/" in url.place:
        example = _KIND_OF[url.scheme].example
        raise ValueError(f'a database URL ends with the name of the database: "{example}"')
    said = dict(url.options)
    tls, socket = said.get("tls"), said.get("unix_socket")
    if tls is not None and tls not in _TLS:
        raise ValueError("tls must be verified or off")
    certificates = Certificates.of(said, OF_LEDGER)
    if tls == Tls.OFF.value:
        certificates.refuse("tls=off")
    if socket is not None and len(url.hosts) > 1:
        raise ValueError("unix_socket is on this machine: it goes with one host at most")
    return LedgerServer(
        kind=_KIND_OF[url.scheme].name,
        url=url,
        database=url.place,
        certificates=certificates,
        tls=None if tls is None else Tls(tls),
        unix_socket=socket,
    )
