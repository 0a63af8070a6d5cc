"""Addresses of requests, of the hosts that may be asked, of services, and where we listen."""

import re
from collections.abc import Iterable
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self

import attrs

from .servers import LARGEST_PORT, LONGEST_LABEL

LONGEST_WEB_ADDRESS: Final = 2_048

#: Characters of a host name, as in DNS (RFC 1035).
LONGEST_HOST: Final = 253

_PORTS: Final = {"http": 80, "https": 443}
_SCHEME: Final = re.compile(r"(https?)://", re.IGNORECASE)
_SIGNS: Final = re.compile(r"[!-~]+")  # printable ASCII
_PORT: Final = re.compile(r"[0-9]{1,5}")
_LABEL: Final = re.compile(rf"(?!-)[a-z0-9_-]{{1,{LONGEST_LABEL}}}(?<!-)")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


@attrs.frozen(kw_only=True)
class WebAddress:
    """`https://host:port/path?query`, and nothing else.

    *host* is in lower case, without brackets and without a last dot. *target* is path and query as
    they were written. Printed, it shows scheme, host and port alone.
    """

    scheme: str
    host: str
    port: int
    target: str = attrs.field(repr=False)

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read an address.

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it.
        """
        if len(url) > LONGEST_WEB_ADDRESS:
            raise ValueError(f"is longer than {LONGEST_WEB_ADDRESS:,} characters")
        if (head := _SCHEME.match(url)) is None:
            raise ValueError('must be like "https://example.org/path"')
        if not _SIGNS.fullmatch(url):
            raise ValueError(
                "has a blank, a control character or a letter that is not ASCII: write it as "
                "%20 or %E4, and in the host's name as xn--…"
            )
        rest = url[head.end() :]
        authority = re.split(r"[/?]", rest, maxsplit=1)[0]
        target = rest[len(authority) :]
        if "#" in rest or "\\" in rest:
            raise ValueError("has a # or a \\, which no server is told: write them as %23 and %5C")
        if "@" in authority:
            raise ValueError("has a user or password before the host: send them in a header")
        scheme = head[1].lower()
        host, port = _host_and_port(authority, _PORTS[scheme])
        return cls(scheme=scheme, host=host, port=port, target=_rooted(target))

    @cached_property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The host as an address; None if it is a name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def is_encrypted(self) -> bool:
        """Whether it is asked over TLS."""
        return self.scheme == "https"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"


def _rooted(target: str) -> str:
    return target if target.startswith("/") else f"/{target}"


def _host_and_port(authority: str, usual: int) -> tuple[str, int]:
    if authority.startswith("["):
        name, bracket, after = authority[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise ValueError("has a [ without its ]")
        return _v6(name), _port(after[1:], usual) if after else usual
    name, colon, port = authority.partition(":")
    return checked_host(name), _port(port, usual) if colon else usual


def _port(text: str, usual: int) -> int:
    if not text:  # "http://host:/" is the usual port, by RFC 3986
        return usual
    if not _PORT.fullmatch(text) or not 0 < int(text) <= LARGEST_PORT:
        raise ValueError(f"has a port that is no number from 1 to {LARGEST_PORT}")
    return int(text)


def _v6(text: str) -> str:
    try:
        address = IPv6Address(text)
    except ValueError:
        raise ValueError("has brackets around what is no IPv6 address") from None
    if address.scope_id is not None:
        raise ValueError("has an IPv6 address with a zone, which only this machine understands")
    return str(address)


def checked_host(text: str) -> str:
    """Give the name or IPv4 address of a host in its one form.

    Resolvers take `127.1`, `0x7f.1`, `017700000001` and `2130706433` for 127.0.0.1. What looks
    like a number is therefore an address in full, or refused.

    >>> checked_host("Example.ORG.")
    'example.org'

    Raises:
        ValueError: it is neither; the text quotes nothing of it.
    """
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("has no host name or address: it is like hooks.example.org")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise ValueError(
                "has a number for a host: write an IPv4 address in full, like 192.0.2.1"
            ) from None
    return name


MOST_RULES: Final = 256

_HAS_IT_NOT: Final = "CRON_HTTP_ALLOWED_HOSTS does not have it"

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: Not public, by IANA's registry of special addresses; Python's own list differs between patches.
_SPECIAL_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network: Linux takes 0.0.0.0 for itself
            "10.0.0.0/8",
            "100.64.0.0/10",  # carriers; the metadata of Alibaba
            "127.0.0.0/8",
            "168.63.129.16/32",  # public by its number, and Azure's host
            "169.254.0.0/16",  # link-local; the metadata of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)

#: What is given out to anyone; beside it is loopback, link-local, unique local, multicast.
_GLOBAL_V6: Final = IPv6Network("2000::/3")
_SPECIAL_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocols: Teredo, ORCHID
            "2001:db8::/32",
            "2002::/16",  # 6to4 leads to an IPv4 address
            "3fff::/20",
        ),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")


@attrs.frozen(kw_only=True)
class AllowedHosts:
    """Names and networks that may be asked; without any, all that is public may.

    `*.example.org` is each name below example.org, `*` is each name. A network allows its
    addresses, public or not, under any name. A name allows itself at public addresses.
    """

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, rules: Iterable[str]) -> Self:
        """Read names, `*.names`, addresses and networks.

        Raises:
            ValueError: one is none of them; the text tells its number.
        """
        names, networks = set[str](), list[Network]()
        for number, rule in enumerate(rules, start=1):
            if number > MOST_RULES:
                raise ValueError(f"names more than {MOST_RULES} hosts")
            try:
                networks.append(_network(rule))
            except ValueError:
                names.add(_name(rule, number))
        return cls(names=frozenset(names), networks=tuple(networks))

    def refusal(self, web: WebAddress) -> str | None:
        """Say why a host may not even be looked up; None if it may."""
        if web.address is not None:
            return None if self.allows(web, web.address) else self._why(web, web.address)
        if self.networks or self._has(web.host):
            return None
        return f"the host {web.host} is not allowed: {_HAS_IT_NOT}"

    def allows(self, web: WebAddress, address: Address) -> bool:
        """Tell whether a host may be asked at one of its addresses."""
        address = _meant(address)
        if any(address in network for network in self.networks):
            return True
        return self._has(web.host) and is_public(address)

    def refusal_of_all(self, web: WebAddress, addresses: Iterable[Address]) -> str:
        """Say why none of a host's addresses may be asked."""
        return next((self._why(web, each) for each in addresses), f"{web.host} has no address")

    def _why(self, web: WebAddress, address: Address) -> str:
        if self._has(web.host):
            at = "" if web.address is not None else f" of {web.host}"
            return f"the address {address}{at} is not public, and {_HAS_IT_NOT}"
        return f"the host {web.host} is not allowed: {_HAS_IT_NOT}"

    def _has(self, host: str) -> bool:
        if (not self.names and not self.networks) or "*" in self.names or host in self.names:
            return True
        return any(f"*.{parent}" in self.names for parent in _parents(host))

    @cached_property
    def is_open(self) -> bool:
        """Whether every public host may be asked."""
        return "*" in self.names or not (self.names or self.networks)


def is_public(address: Address) -> bool:
    """Tell whether an address is given out to anyone, and nobody's inside.

    >>> is_public(ip_address("93.184.215.14")), is_public(ip_address("::ffff:10.0.0.1"))
    (True, False)
    """
    address = _meant(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    return address in _GLOBAL_V6 and not any(address in network for network in _SPECIAL_V6)


def _meant(address: Address) -> Address:
    """Give the IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else address


def _network(rule: str) -> Network:
    if "/" in rule:
        return ip_network(rule)
    return ip_network(ip_address(rule.removeprefix("[").removesuffix("]")))


def _name(rule: str, number: int) -> str:
    if rule == "*":
        return rule
    try:
        return f"*.{checked_host(rule[2:])}" if rule.startswith("*.") else checked_host(rule)
    except ValueError:
        raise ValueError(
            f"host {number} is no name, address or network: they are like hooks.example.org, "
            "*.example.org, 192.0.2.1, 10.0.0.0/8, with commas between"
        ) from None


def _parents(host: str) -> Iterable[str]:
    """Give what a name is below of: `a.b.c` is below `b.c` and `c`."""
    labels = host.split(".")
    return (".".join(labels[begin:]) for begin in range(1, len(labels)))


_FORM: Final = re.compile(
    r"(?P<host>localhost|[0-9.]{7,15}|\[[0-9a-f:.]{2,45}\]):(?P<port>[0-9]{1,5})", re.IGNORECASE
)

_NAMES: Final = {"localhost": "127.0.0.1"}


@attrs.frozen
class ListenAddress:
    """An address of this machine and a port; port 0 lets the system choose one."""

    host: IPv4Address | IPv6Address
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address. Names are resolved nowhere: `localhost` is 127.0.0.1.

        >>> str(ListenAddress.parse("localhost:8520")), str(ListenAddress.parse("[::1]:80"))
        ('127.0.0.1:8520', '[::1]:80')

        Raises:
            ValueError: it is none; the text says what is allowed.
        """
        refused = ValueError(
            f'must be an address and a port from 0 to {LARGEST_PORT}, like "127.0.0.1:8520" or '
            '"[::1]:8520"'
        )
        found = _FORM.fullmatch(text)
        if found is None or int(found["port"]) > LARGEST_PORT:
            raise refused
        host = found["host"].lower().strip("[]")
        try:
            return cls(ip_address(_NAMES.get(host, host)), int(found["port"]))
        except ValueError:
            raise refused from None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it.

        >>> ListenAddress.parse("127.8.8.8:80").is_loopback
        True
        >>> ListenAddress.parse("0.0.0.0:80").is_loopback
        False
        """
        return self.host.is_loopback

    def __str__(self) -> str:
        host = f"[{self.host}]" if isinstance(self.host, IPv6Address) else str(self.host)
        return f"{host}:{self.port}"


def is_meant(host: str, server: str) -> bool:
    """Whether a Host header names a loopback address, or the one that the *server* has.

    >>> is_meant("localhost:8520", "127.0.0.1"), is_meant("evil.example", "127.0.0.1")
    (True, False)
    """
    return meant_address(host, server) is not None


def meant_address(host: str, server: str) -> ListenAddress | None:
    """Read the address of this machine in a Host header; None if it is not of this *server*."""
    has_port = ":" in host.rpartition("]")[2]
    try:
        address = ListenAddress.parse(host if has_port else f"{host}:80")
    except ValueError:
        return None
    return address if address.is_loopback or str(address.host) == server else None


_ADDRESS: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9]{1,31})://(?P<rest>.+)", re.DOTALL)

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
        """Read an address.

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it but a known scheme.
        """
        if len(text) > LONGEST_WEB_ADDRESS:
            raise ValueError(f"is longer than {LONGEST_WEB_ADDRESS:,} characters")
        if not text.isprintable():
            raise ValueError("has a character that is none to be seen, such as an end of line")
        head, _, rest = text.partition("://")
        found = _ADDRESS.fullmatch(f"{head.lower()}://{rest}")
        if found is None:
            raise ValueError('must be like "slack://…", with the scheme of a service')
        if found["scheme"] in LOCAL_SCHEMES:
            raise ValueError(
                f"begins with {found['scheme']}://, which leads to this machine's own desktop, bus "
                "or log and to no service; to do something here, give a command"
            )
        return cls(scheme=found["scheme"], url=text)

    def __str__(self) -> str:
        return f"{self.scheme}://…"
