"""Where database, broker and mail server are, and where we listen ourselves.

No error quotes any part of a URL: an unescaped sign makes a user, a host or an option of what was
meant as a password.
"""

import enum
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import PurePath
from typing import Final, Self
from urllib.parse import quote, unquote

import attrs

from cronhare.domain.addresses import LARGEST_PORT, URL, Address, Host
from cronhare.domain.texts.words import meant

_ESCAPES: Final = (
    "in a user or password @ is written as %40, : as %3A, / as %2F, ? as %3F, # as %23, % as %25"
)


@attrs.frozen(kw_only=True)
class ServerUrl:
    """`scheme://user:password@host:port,host:port/place?option=value`.

    Its text shows scheme, hosts, ports and place, and nothing else.
    """

    scheme: str
    hosts: tuple[Host, ...]
    user: str | None = attrs.field(default=None, repr=False)
    password: str | None = attrs.field(default=None, repr=False)
    place: str | None = None
    options: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)

    @classmethod
    def parse(
        cls,
        url: str,
        *,
        ports: Mapping[str, int],
        options: Collection[str],
        example: str,
        host: str = "",
    ) -> Self:
        """Read a URL; *ports* has the schemes with their usual ports.

        *host* is meant where none is named; without it, one must be.

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it.
        """
        found = URL.fullmatch(url)
        if found is None or (scheme := found["scheme"].lower()) not in ports:
            raise ValueError(f"must be like {example}")
        if " " in url or not url.isprintable():
            raise ValueError("has a blank or a control character: write it as %20, %0A, …")
        if found["fragment"]:
            raise ValueError(f"has a #: {_ESCAPES}")
        who, _, places = found["authority"].rpartition("@")
        path, query = found["path"], found["query"] or ""
        if "@" in f"{who}{path}{query}":
            raise ValueError(
                f"has an @ too many, or a sign before it that ends the password: {_ESCAPES}"
            )
        user, _, password = who.partition(":")
        if not all(named := (places or host).split(",")):
            raise ValueError(f"names no host where one is needed: it must be like {example}")
        try:
            hosts = dict.fromkeys(Host.parse(each, port=ports[scheme]) for each in named)
        except ValueError as error:
            raise ValueError(f"{'a' if named[1:] else 'the'} host {error}; {_ESCAPES}") from None
        return cls(
            scheme=scheme,
            hosts=tuple(hosts),
            user=_decoded(user) or None,
            password=_decoded(password) or None,
            place=None if path is None else _decoded(path[1:]),
            options=_options(query, options),
        )

    def __str__(self) -> str:
        place = "" if self.place is None else f"/{quote(self.place, safe='')}"
        return f"{self.scheme}://{','.join(map(str, self.hosts))}{place}"


def _options(query: str, known: Collection[str]) -> Mapping[str, str]:
    """Read the options. Their names may be a piece of a password: none is quoted."""
    found = dict[str, str]()
    for number, pair in enumerate(filter(None, query.split("&")), start=1):
        name, _, value = pair.partition("=")
        if name not in known:
            close = meant(name.lower(), list(known))
            raise ValueError(
                f"has an option that is not known, number {number} after the ?: "
                f"{f'{close} ' if close else ''}known are {', '.join(known)}. "
                "User and password stand before the host"
            )
        if not value or name in found:
            raise ValueError(f"{name} must be given once, with a value")
        found[name] = _decoded(value)
    return found


def _decoded(text: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise ValueError(f"has a % that begins no escape: {_ESCAPES}")
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("has escapes that are no UTF-8") from None
    if any(sign < " " or sign == "\x7f" for sign in decoded):
        raise ValueError("has a control character, such as %00")
    return decoded


#: What the URLs call a CA, our certificate and its key.
OF_BROKER: Final = ("cafile", "certfile", "keyfile")
OF_LEDGER: Final = ("ssl_ca", "ssl_cert", "ssl_key")


def certificates_beside(url: str, folder: PurePath) -> str:
    """Let the relative paths of a URL's certificates begin at *folder*. All else stays as it is.

    >>> certificates_beside("amqps://rabbit/?cafile=ca.pem&heartbeat=10", PurePath("/etc/cronhare"))
    'amqps://rabbit/?cafile=/etc/cronhare/ca.pem&heartbeat=10'
    >>> certificates_beside("mysql://db/cron?ssl_ca=/etc/ssl/ca.pem", PurePath("/etc/cronhare"))
    'mysql://db/cron?ssl_ca=/etc/ssl/ca.pem'
    """
    names = "|".join(OF_BROKER + OF_LEDGER)
    begin = re.compile(rf"(?<![^&])(?:{names})=(?!/|%2[Ff]|&|$)")  # of one that is relative
    before, mark, query = url.partition("?")
    start = quote(f"{folder}/")
    return f"{before}{mark}{begin.sub(lambda found: found[0] + start, query)}"


@attrs.frozen(kw_only=True)
class Certificates:
    """The paths that a URL names: of a CA, of our certificate, and of its key.

    *options* are the URL's own names of the three, as errors name them.
    """

    options: tuple[str, str, str]
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    @classmethod
    def of(cls, url: ServerUrl, options: tuple[str, str, str], *, without_tls: str | None) -> Self:
        """Take from a URL's options those that name certificates.

        Raises:
            ValueError: a certificate without its key, or a key alone; or any of them where
                nothing is verified, as *without_tls* says.
        """
        ca, certificate, key = map(url.options.get, options)
        if (certificate is None) != (key is None):
            _, one, other = options
            raise ValueError(
                f"{one} and {other} are given together, or neither; one file may have both"
            )
        found = cls(options=options, ca=ca, certificate=certificate, key=key)
        if found.named and without_tls is not None:
            *some, last = options
            raise ValueError(
                f"{without_tls} has no use for {', '.join(some)} or {last}: take one of them away"
            )
        return found

    @property
    def named(self) -> bool:
        return self.ca is not None or self.certificate is not None


#: The schemes of each kind of database on a server, and its usual port.
KINDS: Final = {
    "mysql": (("mysql+pymysql", "mysql", "mariadb+pymysql", "mariadb"), 3306),
    "postgresql": (("postgresql+psycopg", "postgresql"), 5432),
}
_KIND_OF: Final = {scheme: kind for kind, (schemes, _) in KINDS.items() for scheme in schemes}
_FILE: Final = "sqlite:///"
_FILE_EXAMPLE: Final = f'"{_FILE}cronhare.sqlite3"'


def _example(kind: str) -> str:
    return f'"{KINDS[kind][0][0]}://user:password@host/database"'


class Tls(enum.Enum):
    """How a link to a server is kept from others."""

    VERIFIED = "verified"  # certificate and host name are, or there is no connection
    OFFERED = "offered"  # taken where the server offers it; on one machine none is in between
    OFF = "off"  # plain text, by explicit wish


@attrs.frozen
class LedgerFile:
    """An SQLite file."""

    path: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `sqlite:///path`. Raises ValueError: the ledger cannot be kept there."""
        path = url[len(_FILE) :]
        if not url.lower().startswith(_FILE):
            raise ValueError(
                "an SQLite URL has no user, no host and no driver; "
                f"it must name a file, like {_FILE_EXAMPLE}"
            )
        if path in {"", ":memory:"}:
            raise ValueError("a ledger in memory would be lost with its process; name a file")
        if "?" in path or "#" in path or path.startswith("file:"):
            raise ValueError(
                f"an SQLite URL names a file by a plain path, without options: {_FILE_EXAMPLE}"
            )
        return cls(path)

    def __str__(self) -> str:
        return f"{_FILE}{self.path}"


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

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `mysql+pymysql://user:password@host,host:3307/database?tls=off`.

        Raises:
            ValueError: the ledger cannot be kept there; the text quotes nothing of it.
        """
        *some, last = (_FILE_EXAMPLE, *map(_example, KINDS))
        read = ServerUrl.parse(
            url,
            ports={scheme: KINDS[kind][1] for scheme, kind in _KIND_OF.items()},
            options=("tls", *OF_LEDGER, "unix_socket"),
            example=f"{', '.join(some)} or {last}",
            host="localhost",
        )
        kind, tls, socket = _KIND_OF[read.scheme], *map(read.options.get, ("tls", "unix_socket"))
        if not read.place or "/" in read.place:
            raise ValueError(f"a database URL ends with the name of the database: {_example(kind)}")
        if tls not in {None, "verified", "off"}:
            raise ValueError("tls must be verified or off")
        if socket is not None and len(read.hosts) > 1:
            raise ValueError("unix_socket is on this machine: it goes with one host at most")
        without_tls = "tls=off" if tls == "off" else None
        return cls(
            kind=kind,
            url=read,
            database=read.place,
            certificates=Certificates.of(read, OF_LEDGER, without_tls=without_tls),
            tls=None if tls is None else Tls(tls),
            unix_socket=socket,
        )

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Those of whom any will do that takes writes."""
        return self.url.hosts

    def tls_to(self, host: Host) -> Tls:
        """Decide how to speak to a host: verified, unless it is this machine, or the URL says."""
        if self.tls is not None:
            return self.tls
        is_remote = self.unix_socket is None and (not host.is_local or self.certificates.named)
        return Tls.VERIFIED if is_remote else Tls.OFFERED

    def is_proven(self, host: Host) -> bool:
        """Tell whether the link itself proves who answers: a certificate, or a socket's place."""
        return self.unix_socket is not None or self.tls_to(host) is Tls.VERIFIED

    def __str__(self) -> str:
        return str(self.url)


def parse_ledger(url: str) -> LedgerFile | LedgerServer:
    """Read where the ledger is.

    Raises:
        ValueError: it cannot be kept there; the text quotes nothing of it.
    """
    kind = LedgerFile if url.lower().startswith("sqlite") else LedgerServer
    return kind.parse(url)


#: Seconds. The peer is taken for dead after two to three of them without a sign. A longer one than
#: the longest would find a dead peer later than the operating system does.
HEARTBEAT: Final = 10
LONGEST_HEARTBEAT: Final = 3_600


@attrs.frozen(kw_only=True)
class BrokerServer:
    """A RabbitMQ. Printed, it shows no user and no password.

    With several hosts they are nodes of one cluster: any of them serves.
    """

    url: ServerUrl
    certificates: Certificates
    heartbeat: int = HEARTBEAT

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `amqp://user:password@host,host:5673/vhost?heartbeat=10`, or the same with `amqps`.

        `cafile`, `certfile` and `keyfile` name PEM files. A missing vhost is `/`. Certificate and
        host name are always verified.

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it.
        """
        read = ServerUrl.parse(
            url,
            ports={"amqp": 5672, "amqps": 5671},
            options=("heartbeat", *OF_BROKER),
            example='"amqp://user:password@host,host:5673/vhost"',
        )
        heartbeat = read.options.get("heartbeat", str(HEARTBEAT))
        if not re.fullmatch("[0-9]{1,4}", heartbeat) or int(heartbeat) > LONGEST_HEARTBEAT:
            raise ValueError(f"heartbeat must be a number of seconds up to {LONGEST_HEARTBEAT}")
        without_tls = None if read.scheme == "amqps" else "amqp:// (amqps:// is TLS)"
        certificates = Certificates.of(read, OF_BROKER, without_tls=without_tls)
        return cls(url=read, certificates=certificates, heartbeat=int(heartbeat))

    @property
    def vhost(self) -> str:
        return self.url.place or "/"

    def __str__(self) -> str:
        return str(self.url)


@attrs.frozen(kw_only=True)
class MailServer:
    """An SMTP server. Printed, it shows no user and no password.

    *is_plain* says that it may be spoken to in plain text; else TLS is begun, and verified.
    """

    url: ServerUrl
    is_plain: bool

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `smtp://user:password@host:587` or `smtps://…`; `?tls=off` is plain text.

        Port 25 hands on between servers; 587 takes mail from programs, 465 likewise in TLS.

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it.
        """
        read = ServerUrl.parse(
            url,
            ports={"smtp": 25, "smtps": 465},
            options=("tls",),
            example='"smtp://user:password@host:587"',
        )
        tls = read.options.get("tls")
        if tls is not None and (tls != "off" or read.scheme == "smtps"):
            raise ValueError("has a tls that is not off, which it can be after smtp:// alone")
        if len(read.hosts) > 1 or read.place:
            raise ValueError("names several hosts or a path: one host is asked, without any")
        is_plain = tls is not None or (read.scheme == "smtp" and read.hosts[0].is_local)
        return cls(url=read, is_plain=is_plain)

    def __str__(self) -> str:
        return str(self.url)


#: What people use of RFC 5322: nothing quoted, no comment, no blank, no line end. Without an @, a
#: user of this host, to whom the server adds its own domain, as cron's does.
_MAIL_ADDRESS: Final = re.compile(
    r"(?=.{1,254}$)[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]+"
    r"|[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"
)


def checked_address(text: str) -> str:
    """Give an address of mail as it is, or the name of a user of this host.

    Raises:
        ValueError: it is neither.
    """
    if _MAIL_ADDRESS.fullmatch(text):
        return text
    raise ValueError("is no address of mail, such as ops@example.org")


_LISTEN: Final = re.compile(
    r"(?P<host>localhost|[0-9.]{7,15}|\[[0-9a-f:.]{2,45}\]):(?P<port>[0-9]{1,5})", re.IGNORECASE
)


@attrs.frozen
class ListenAddress:
    """An address of this machine and a port; port 0 lets the system choose one."""

    host: Address
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address. Names are resolved nowhere: `localhost` is 127.0.0.1.

        >>> str(ListenAddress.parse("localhost:8520")), str(ListenAddress.parse("[::1]:80"))
        ('127.0.0.1:8520', '[::1]:80')

        Raises:
            ValueError: it is none; the text says what is allowed.
        """
        found = _LISTEN.fullmatch(text)
        with suppress(ValueError):
            if found is not None and int(found["port"]) <= LARGEST_PORT:
                host = found["host"].lower().replace("localhost", "127.0.0.1").strip("[]")
                return cls(ip_address(host), int(found["port"]))
        raise ValueError(
            f'must be an address and a port from 0 to {LARGEST_PORT}, like "127.0.0.1:8520" or '
            '"[::1]:8520"'
        )

    @property
    def is_loopback(self) -> bool:
        return self.host.is_loopback

    def __str__(self) -> str:
        return str(Host(str(self.host), self.port))


def meant_address(host: str, server: str) -> ListenAddress | None:
    """Read the address of this machine in a Host header; None if it is not of this *server*.

    It is meant by a loopback address, and by the one that the server has.

    >>> str(meant_address("localhost:8520", "127.0.0.1")), meant_address("evil:80", "127.0.0.1")
    ('127.0.0.1:8520', None)
    """
    has_port = ":" in host.rpartition("]")[2]
    try:
        address = ListenAddress.parse(host if has_port else f"{host}:80")
    except ValueError:
        return None
    return address if address.is_loopback or str(address.host) == server else None
