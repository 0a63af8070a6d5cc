"""Where database, broker and mail server are: their URLs, taken apart.

No error quotes any part of a URL: an unescaped sign makes a user, a host or an option of what was
meant as a password.
"""

import enum
import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from ipaddress import IPv6Address, ip_address
from pathlib import PurePath
from typing import Final, Self
from urllib.parse import quote, unquote

import attrs

LONGEST_URL: Final = 8_192
MOST_HOSTS: Final = 16
LARGEST_PORT: Final = 65_535

ESCAPES: Final = (
    "in a user or password @ is written as %40, : as %3A, / as %2F, ? as %3F, # as %23, % as %25"
)

#: A resolver encodes each part of a name between dots by itself, and fails over any other length.
LONGEST_LABEL: Final = 63

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?")
_LABEL: Final = rf"[^.]{{1,{LONGEST_LABEL}}}"
_LABELS: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x20\x7f-\xa0\ud800-\udfff]")
_NO_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


@attrs.frozen(order=True)
class Host:
    """One server of perhaps several that serve the same."""

    name: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether what is sent there stays on this machine."""
        try:
            return ip_address(self.name).is_loopback
        except ValueError:
            return self.name.lower() == "localhost"

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


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
        host: str | None = None,
    ) -> "ServerUrl":
        """Read a URL; *ports* has the schemes with their usual ports.

        *host* is meant where none is named; without it, one must be.

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it.
        """
        if len(url) > LONGEST_URL:
            raise ValueError(f"is longer than {LONGEST_URL:,} characters")
        if _UNPRINTABLE.search(url):
            raise ValueError("has a blank or a control character: write it as %20, %0A, …")
        head = _SCHEME.match(url)
        if head is None or (scheme := head[1].lower()) not in ports:
            raise ValueError(f'must be like "{example}"')
        who, places, place, query = _parts(url[head.end() :])
        user, _, password = (who or "").partition(":")
        return cls(
            scheme=scheme,
            hosts=tuple(_hosts(places, ports[scheme], host, example)),
            user=_decoded(user) or None,
            password=_decoded(password) or None,
            place=None if place is None else _decoded(place),
            options=_options(query, options),
        )

    def __str__(self) -> str:
        place = "" if self.place is None else f"/{quote(self.place, safe='')}"
        return f"{self.scheme}://{','.join(map(str, self.hosts))}{place}"


def _parts(rest: str) -> tuple[str | None, str, str | None, str]:
    """Part what follows the scheme: user and password, hosts, place, query."""
    if "#" in rest:
        raise ValueError(f"has a #: {ESCAPES}")
    path_and_hosts, _, query = rest.partition("?")
    authority, slash, place = path_and_hosts.partition("/")
    who, at, hosts = authority.rpartition("@")
    if "@" in who or "@" in place or "@" in query:
        raise ValueError(
            f"has an @ too many, or a sign before it that ends the password: {ESCAPES}"
        )
    return who if at else None, hosts, place if slash else None, query


def _hosts(text: str, port: int, usual: str | None, example: str) -> Iterator[Host]:
    if not text and usual is not None:
        yield Host(usual, port)
        return
    places = text.split(",")
    if len(places) > MOST_HOSTS:
        raise ValueError(f"names more than {MOST_HOSTS} hosts")
    seen = set[Host]()
    for number, place in enumerate(places, start=1):
        host = _host(place, port, which="the host" if len(places) == 1 else f"host {number}")
        if host is None:
            raise ValueError(f'names no host where one is needed: it must be like "{example}"')
        if host not in seen:
            seen.add(host)
            yield host


def _host(text: str, usual: int, *, which: str) -> Host | None:
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        if not bracket or not _is_v6(name) or (rest and not rest.startswith(":")):
            raise ValueError(f"{which} is no IPv6 address in brackets; {ESCAPES}")
        port = rest[1:] if rest else None
    else:
        name, colon, after = text.partition(":")
        port = after if colon else None
        if not name:
            return None
        if not _NAME.fullmatch(name):
            raise ValueError(f"{which} is no host name or address; {ESCAPES}")
        if not _LABELS.fullmatch(name):
            raise ValueError(
                f"{which} has two dots in a row, or more than {LONGEST_LABEL} characters between "
                "two: a host name is like node-1.example.org"
            )
    if port is None:
        return Host(name, usual)
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= LARGEST_PORT):  # noqa: PLR2004 - the digits of the largest
        raise ValueError(f"{which} has a port that is no number from 1 to {LARGEST_PORT}")
    return Host(name, int(port))


def _is_v6(text: str) -> bool:
    if "%" in text:  # a zone, which a name of the host file has in a plainer way
        return False
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _options(query: str, known: Collection[str]) -> Mapping[str, str]:
    """Read the options. Their names may be a piece of a password: none is quoted."""
    found = dict[str, str]()
    for number, pair in enumerate(filter(None, query.split("&")), start=1):
        name, equals, value = pair.partition("=")
        if name not in known:
            close = get_close_matches(name.lower()[:64], known, n=1, cutoff=0.6)
            meant = f"did you mean {close[0]}? " if close else ""
            allowed = f"known are {', '.join(known)}" if known else "there are none"
            raise ValueError(
                f"has an option that is not known, number {number} after the ?: {meant}{allowed}. "
                "User and password stand before the host"
            )
        if not equals or not value or name in found:
            raise ValueError(f"{name} must be given once, with a value")
        found[name] = _decoded(value)
    return found


def _decoded(text: str) -> str:
    if _NO_ESCAPE.search(text):
        raise ValueError(f"has a % that begins no escape: {ESCAPES}")
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("has escapes that are no UTF-8") from None
    if any(ord(sign) < 0x20 or ord(sign) == 0x7F for sign in decoded):  # noqa: PLR2004 - ASCII's
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
    before, mark, query = url.partition("?")
    return f"{before}{mark}{'&'.join(_beside(pair, folder) for pair in query.split('&'))}"


def _beside(pair: str, folder: PurePath) -> str:
    name, equals, path = pair.partition("=")
    is_relative = path and not path.upper().startswith(("/", "%2F"))
    if name in OF_BROKER + OF_LEDGER and is_relative:
        return f"{name}{equals}{quote(f'{folder}/')}{path}"
    return pair


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
    def of(cls, said: Mapping[str, str], options: tuple[str, str, str]) -> "Certificates":
        """Take from a URL's options those that name certificates.

        Raises:
            ValueError: a certificate without its key, or a key alone.
        """
        ca, certificate, key = map(said.get, options)
        if (certificate is None) != (key is None):
            _, one, other = options
            raise ValueError(
                f"{one} and {other} are given together, or neither; one file may have both"
            )
        return cls(options=options, ca=ca, certificate=certificate, key=key)

    def refuse(self, where: str) -> None:
        """Refuse certificates where nothing is verified.

        Raises:
            ValueError: some are named.
        """
        if self.named:
            *some, last = self.options
            raise ValueError(
                f"{where} has no use for {', '.join(some)} or {last}: take one of them away"
            )

    @property
    def named(self) -> bool:
        """Whether there is any."""
        return self.ca is not None or self.certificate is not None


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
_LEDGER_PORTS: Final = {scheme: kind.port for scheme, kind in _KIND_OF.items()}
_TLS: Final = {"verified", "off"}
_LEDGER_OPTIONS: Final = ("tls", *OF_LEDGER, "unix_socket")


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
            url,
            ports=_LEDGER_PORTS,
            options=_LEDGER_OPTIONS,
            example=KINDS[0].example,
            host="localhost",
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


#: Seconds. The peer is taken for dead after two to three of them without a sign.
HEARTBEAT: Final = 10

#: Seconds. A longer one would find a dead peer later than the operating system does.
LONGEST_HEARTBEAT: Final = 3_600

#: Bytes: AMQP writes the name of a vhost as a short string.
LONGEST_VHOST: Final = 255

BROKER_EXAMPLE: Final = "amqp://user:password@host,host:5673/vhost"

_BROKER_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_BROKER_OPTIONS: Final = ("heartbeat", *OF_BROKER)


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
        try:
            read = ServerUrl.parse(
                url, ports=_BROKER_PORTS, options=_BROKER_OPTIONS, example=BROKER_EXAMPLE
            )
            heartbeat = _seconds(read.options.get("heartbeat", str(HEARTBEAT)))
            certificates = Certificates.of(read.options, OF_BROKER)
            if read.scheme != "amqps":
                certificates.refuse("amqp:// (amqps:// is TLS)")
            return cls(url=_checked(read), certificates=certificates, heartbeat=heartbeat)
        except ValueError as error:
            raise ValueError(f"the broker URL {error}") from None  # its cause may quote it

    @property
    def vhost(self) -> str:
        """The vhost; `/` where the URL names none."""
        return self.url.place or "/"

    def __str__(self) -> str:
        return str(self.url)


def _checked(url: ServerUrl) -> ServerUrl:
    if len((url.place or "").encode()) > LONGEST_VHOST:
        raise ValueError(f"names a vhost of more than {LONGEST_VHOST} bytes")
    return url


def _seconds(text: str) -> int:
    digits = text if text.isascii() and text.isdigit() and len(text) <= len("3600") else ""
    if not digits or int(digits) > LONGEST_HEARTBEAT:
        raise ValueError(f"has a heartbeat that is no number of seconds up to {LONGEST_HEARTBEAT}")
    return int(digits)


MAIL_EXAMPLE: Final = "smtp://user:password@host:587"

#: Characters of an address, by RFC 5321.
LONGEST_ADDRESS: Final = 254

#: Port 25 hands on between servers; 587 takes mail from programs, 465 likewise in TLS.
_MAIL_PORTS: Final = {"smtp": 25, "smtps": 465}

#: What people use of RFC 5322: nothing quoted, no comment, no blank, no line end.
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
#: Where the server adds its own domain, as cron's does: a user of this host.
_LOCAL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


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

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it.
        """
        try:
            read = ServerUrl.parse(url, ports=_MAIL_PORTS, options=("tls",), example=MAIL_EXAMPLE)
            _check(read)
        except ValueError as error:
            raise ValueError(f"the mail server's URL {error}") from None  # its cause may quote it
        is_plain = "tls" in read.options or (read.scheme == "smtp" and read.hosts[0].is_local)
        return cls(url=read, is_plain=is_plain)

    def __str__(self) -> str:
        return str(self.url)


def _check(url: ServerUrl) -> None:
    tls = url.options.get("tls")
    if tls is not None and (tls != "off" or url.scheme == "smtps"):
        raise ValueError("has a tls that is not off, which it can be after smtp:// alone")
    if len(url.hosts) > 1:
        raise ValueError("names several hosts, and one is asked")
    if url.place:
        raise ValueError("has a path, and SMTP has none")


def checked_address(text: str) -> str:
    """Give an address of mail as it is, or the name of a user of this host.

    Raises:
        ValueError: it is neither.
    """
    if len(text) <= LONGEST_ADDRESS and (_ADDRESS.fullmatch(text) or _LOCAL.fullmatch(text)):
        return text
    raise ValueError("is no address of mail, such as ops@example.org")
