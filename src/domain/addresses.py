"""Addresses of requests and of services, taken apart. Their texts, and errors, quote no secret."""

import re
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Self

import attrs

#: Characters of a host name, and of each part of it between dots, as in DNS (RFC 1035).
LONGEST_HOST: Final = 253
LONGEST_LABEL: Final = 63

LARGEST_PORT: Final = 65_535
LONGEST_WEB_ADDRESS: Final = 2_048

Address = IPv4Address | IPv6Address

#: The parts of a URL, by RFC 3986. `urlsplit` takes no list of hosts, and its errors quote them.
URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)"
    r"(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?(?P<fragment>#.*)?",
    re.DOTALL,
)
_HOST: Final = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<name>[^:]*))(?::(?P<port>.*))?", re.DOTALL)
_LABEL: Final = re.compile(rf"(?!-)[a-z0-9_-]{{1,{LONGEST_LABEL}}}(?<!-)")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")

_PORTS: Final = {"http": 80, "https": 443}


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
        address = _address(self.name)
        return self.name == "localhost" if address is None else address.is_loopback

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
    if _NUMBER.fullmatch(labels[-1]) and _address(name) is None:
        raise ValueError("is a number: write an IPv4 address in full, like 192.0.2.1")
    return name


def _checked_v6(text: str) -> str:
    address = _address(text)
    if not isinstance(address, IPv6Address):
        raise ValueError("is no IPv6 address in brackets")  # noqa: TRY004 - of the text
    if address.scope_id is not None:
        raise ValueError("is an IPv6 address with a zone, which only this machine understands")
    return str(address)


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


@attrs.frozen(kw_only=True)
class WebAddress:
    """`https://host:port/path?query`, and nothing else.

    *host* is in lower case, without brackets and without a last dot. *target* is path and query as
    they were written. Printed, it shows scheme, host and port alone, and no error quotes it: the
    path of a webhook is a secret.
    """

    scheme: str
    host: str
    port: int
    target: str = attrs.field(repr=False)

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read an address; a `ValueError` quotes nothing of it."""
        if len(url) > LONGEST_WEB_ADDRESS:
            raise ValueError(f"is longer than {LONGEST_WEB_ADDRESS:,} characters")
        found = URL.fullmatch(url)
        if found is None or (scheme := found["scheme"].lower()) not in _PORTS:
            raise ValueError('must be like "https://example.org/path"')
        if not re.fullmatch("[!-~]+", url):  # printable ASCII
            raise ValueError(
                "has a blank, a control character or a letter that is not ASCII: write it as "
                "%20 or %E4, and in the host's name as xn--…"
            )
        if found["fragment"]:
            raise ValueError("has a #, which no server is told: write it as %23")
        if "@" in found["authority"]:
            raise ValueError("has a user or password before the host: send them in a header")
        try:
            host = Host.parse(found["authority"], port=_PORTS[scheme])
        except ValueError as error:
            raise ValueError(f"has a host that {error}") from None
        target = url[found.end("authority") :]
        if not target.startswith("/"):
            target = f"/{target}"
        return cls(scheme=scheme, host=host.name, port=host.port, target=target)

    @cached_property
    def address(self) -> Address | None:
        return _address(self.host)

    @property
    def is_encrypted(self) -> bool:
        return self.scheme == "https"

    def __str__(self) -> str:
        usual = f":{_PORTS[self.scheme]}"
        return f"{self.scheme}://{Host(self.host, self.port)}".removesuffix(usual)


#: What reaches no service, but this machine's desktop, bus, log or devices.
LOCAL_SCHEMES: Final = frozenset(
    "blink1 dbus file gio glib gnome kde macosx qt syslog windows".split()  # noqa: SIM905
)


@attrs.frozen(kw_only=True)
class AppriseAddress:
    """A service that a message can be sent to. Printed, it shows its scheme alone."""

    scheme: str
    url: str = attrs.field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address; a `ValueError` quotes nothing of it but a known scheme."""
        if len(text) > LONGEST_WEB_ADDRESS:
            raise ValueError(f"is longer than {LONGEST_WEB_ADDRESS:,} characters")
        if not text.isprintable():
            raise ValueError("has a character that is none to be seen, such as an end of line")
        head, _, rest = text.partition("://")
        scheme = head.lower()
        if not rest or not re.fullmatch("[a-z][a-z0-9]{1,31}", scheme):
            raise ValueError('must be like "slack://…", with the scheme of a service')
        if scheme in LOCAL_SCHEMES:
            raise ValueError(
                f"begins with {scheme}://, which leads to this machine's own desktop, bus "
                "or log and to no service; to do something here, give a command"
            )
        return cls(scheme=scheme, url=text)

    def __str__(self) -> str:
        return f"{self.scheme}://…"
