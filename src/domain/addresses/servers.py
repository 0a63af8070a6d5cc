"""Where database, broker and mail server are: their URLs, taken apart.

No error quotes any part of a URL: an unescaped sign makes a user, a host or an option of what was
meant as a password.
"""

import enum
import re
from collections.abc import Collection, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import PurePath
from typing import Final, Self
from urllib.parse import quote, unquote

import attrs

from ..texts.words import meant

MOST_HOSTS: Final = 16
LARGEST_PORT: Final = 65_535

#: Characters of a host name, and of each part of it between dots, as in DNS (RFC 1035).
LONGEST_HOST: Final = 253
LONGEST_LABEL: Final = 63

ESCAPES: Final = (
    "in a user or password @ is written as %40, : as %3A, / as %2F, ? as %3F, # as %23, % as %25"
)

#: The parts of a URL, by RFC 3986. `urlsplit` takes no list of hosts, and its errors quote them.
URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)"
    r"(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?(?P<fragment>#.*)?",
    re.DOTALL,
)
_HOST: Final = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<name>[^:]*))(?::(?P<port>.*))?", re.DOTALL)
_LABEL: Final = re.compile(rf"(?!-)[a-z0-9_-]{{1,{LONGEST_LABEL}}}(?<!-)")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NO_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


@attrs.frozen(order=True)
class Host:
    """One server of perhaps several that serve the same; its name is in lower case."""

    name: str
    port: int

    @classmethod
    def parse(cls, text: str, *, port: int) -> Self:
        """Read `name`, `name:port` or `[IPv6]:port`; *port* is meant where none is named.

        Raises:
            ValueError: it is none; the text continues "the host …" and quotes nothing of it.
        """
        if (found := _HOST.fullmatch(text)) is None:
            raise ValueError("is no IPv6 address in brackets")
        name = checked_host(found["name"]) if found["v6"] is None else _checked_v6(found["v6"])
        if not (given := found["port"]):  # "host:" has the usual port, by RFC 3986
            return cls(name, port)
        if not re.fullmatch("[0-9]{1,5}", given) or not 0 < int(given) <= LARGEST_PORT:
            raise ValueError(f"has a port that is no number from 1 to {LARGEST_PORT}")
        return cls(name, int(given))

    @property
    def is_local(self) -> bool:
        """Whether what is sent there stays on this machine."""
        try:
            return ip_address(self.name).is_loopback
        except ValueError:
            return self.name == "localhost"

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


def checked_host(text: str) -> str:
    """Give the name or IPv4 address of a host in its one form.

    Resolvers take `127.1`, `0x7f.1`, `017700000001` and `2130706433` for 127.0.0.1. What looks
    like a number is therefore an address in full, or refused.

    >>> checked_host("Example.ORG.")
    'example.org'

    Raises:
        ValueError: it is neither; the text continues "the host …" and quotes nothing of it.
    """
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("is no name or address: these are like node-1.example.org, 192.0.2.1")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise ValueError("is a number: write an IPv4 address in full, like 192.0.2.1") from None
    return name


def _checked_v6(text: str) -> str:
    try:
        address = IPv6Address(text)
    except ValueError:
        raise ValueError("is no IPv6 address in brackets") from None
    if address.scope_id is not None:
        raise ValueError("is an IPv6 address with a zone, which only this machine understands")
    return str(address)


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
            ValueError: it cannot be used; the text has all that is wrong, and quotes nothing of it.
        """
        found = URL.fullmatch(url)
        if found is None or (scheme := found["scheme"].lower()) not in ports:
            raise ValueError(f"must be like {example}")
        if " " in url or not url.isprintable():
            raise ValueError("has a blank or a control character: write it as %20, %0A, …")
        if found["fragment"]:
            raise ValueError(f"has a #: {ESCAPES}")
        who, _, places = found["authority"].rpartition("@")
        path, query = found["path"], found["query"] or ""
        if "@" in f"{who}{path}{query}":
            raise ValueError(
                f"has an @ too many, or a sign before it that ends the password: {ESCAPES}"
            )
        user, _, password = who.partition(":")
        faults = list[str]()
        parsed = cls(
            scheme=scheme,
            hosts=_hosts(places or host, ports[scheme], example, faults),
            user=_decoded(user, faults) or None,
            password=_decoded(password, faults) or None,
            place=None if path is None else _decoded(path[1:], faults),
            options=_options(query, options, faults),
        )
        if faults:
            raise ValueError("; ".join(dict.fromkeys(faults)))
        return parsed

    def __str__(self) -> str:
        place = "" if self.place is None else f"/{quote(self.place, safe='')}"
        return f"{self.scheme}://{','.join(map(str, self.hosts))}{place}"


def _hosts(text: str, port: int, example: str, faults: list[str]) -> tuple[Host, ...]:
    places = text.split(",")
    if not all(places):
        faults.append(f"names no host where one is needed: it must be like {example}")
    if len(places) > MOST_HOSTS:
        faults.append(f"names more than {MOST_HOSTS} hosts")
    hosts = dict[Host, None]()
    for number, place in enumerate(filter(None, places[:MOST_HOSTS]), start=1):
        try:
            hosts[Host.parse(place, port=port)] = None
        except ValueError as error:
            which = "the host" if len(places) == 1 else f"host {number}"
            faults.append(f"{which} {error}; {ESCAPES}")
    return tuple(hosts)


def _options(query: str, known: Collection[str], faults: list[str]) -> Mapping[str, str]:
    """Read the options. Their names may be a piece of a password: none is quoted."""
    found = dict[str, str]()
    for number, pair in enumerate(filter(None, query.split("&")), start=1):
        name, _, value = pair.partition("=")
        if name not in known:
            close = meant(name.lower(), list(known))
            allowed = f"known are {', '.join(known)}" if known else "there are none"
            faults.append(
                f"has an option that is not known, number {number} after the ?: "
                f"{f'{close} ' if close else ''}{allowed}. User and password stand before the host"
            )
        elif not value or name in found:
            faults.append(f"{name} must be given once, with a value")
        else:
            found[name] = _decoded(value, faults)
    return found


def _decoded(text: str, faults: list[str]) -> str:
    if _NO_ESCAPE.search(text):
        faults.append(f"has a % that begins no escape: {ESCAPES}")
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        faults.append("has escapes that are no UTF-8")
        return ""
    if any(sign < " " or sign == "\x7f" for sign in decoded):
        faults.append("has a control character, such as %00")
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
    def of(cls, said: Mapping[str, str], options: tuple[str, str, str]) -> Self:
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


@attrs.frozen
class Kind:
    """A kind of database on a server: its name, how an address is written, and its usual port."""

    name: str
    schemes: tuple[str, ...]
    port: int

    @property
    def example(self) -> str:
        return f'"{self.schemes[0]}://user:password@host/database"'


KINDS: Final = (
    Kind("mysql", ("mysql+pymysql", "mysql", "mariadb+pymysql", "mariadb"), 3306),
    Kind("postgresql", ("postgresql+psycopg", "postgresql"), 5432),
)
_KIND_OF: Final = {scheme: kind for kind in KINDS for scheme in kind.schemes}
_FILE: Final = "sqlite:///"
_FILE_EXAMPLE: Final = f'"{_FILE}cronhare.sqlite3"'


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
        """Read `sqlite:///path`.

        Raises:
            ValueError: the ledger cannot be kept there.
        """
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
        *some, last = (_FILE_EXAMPLE, *(kind.example for kind in KINDS))
        read = ServerUrl.parse(
            url,
            ports={scheme: kind.port for scheme, kind in _KIND_OF.items()},
            options=("tls", *OF_LEDGER, "unix_socket"),
            example=f"{', '.join(some)} or {last}",
            host="localhost",
        )
        kind, tls, socket = _KIND_OF[read.scheme], *map(read.options.get, ("tls", "unix_socket"))
        if not read.place or "/" in read.place:
            raise ValueError(f"a database URL ends with the name of the database: {kind.example}")
        if tls not in {None, "verified", "off"}:
            raise ValueError("tls must be verified or off")
        certificates = Certificates.of(read.options, OF_LEDGER)
        if tls == "off":
            certificates.refuse("tls=off")
        if socket is not None and len(read.hosts) > 1:
            raise ValueError("unix_socket is on this machine: it goes with one host at most")
        return cls(
            kind=kind.name,
            url=read,
            database=read.place,
            certificates=certificates,
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

#: Bytes: AMQP writes the name of a vhost as a short string.
LONGEST_VHOST: Final = 255


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
        if len((read.place or "").encode()) > LONGEST_VHOST:
            raise ValueError(f"names a vhost of more than {LONGEST_VHOST} bytes")
        certificates = Certificates.of(read.options, OF_BROKER)
        if read.scheme != "amqps":
            certificates.refuse("amqp:// (amqps:// is TLS)")
        return cls(url=read, certificates=certificates, heartbeat=int(heartbeat))

    @property
    def vhost(self) -> str:
        """The vhost; `/` where the URL names none."""
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


#: Characters of an address of mail, by RFC 5321.
LONGEST_ADDRESS: Final = 254

#: What people use of RFC 5322: nothing quoted, no comment, no blank, no line end. Without an @, a
#: user of this host, to whom the server adds its own domain, as cron's does.
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}|[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"
)


def checked_address(text: str) -> str:
    """Give an address of mail as it is, or the name of a user of this host.

    Raises:
        ValueError: it is neither.
    """
    if len(text) <= LONGEST_ADDRESS and _ADDRESS.fullmatch(text):
        return text
    raise ValueError("is no address of mail, such as ops@example.org")
