"""Addresses of requests, of the hosts that may be asked, of services, and where we listen."""

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self

import attrs

from .servers import LARGEST_PORT, URL, Host, checked_host

LONGEST_WEB_ADDRESS: Final = 2_048

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_PORTS: Final = {"http": 80, "https": 443}


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
        """Read an address.

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it.
        """
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
        usual = f":{_PORTS[self.scheme]}"
        return f"{self.scheme}://{Host(self.host, self.port)}".removesuffix(usual)


_HAS_IT_NOT: Final = "CRON_HTTP_ALLOWED_HOSTS does not have it"

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
    addresses, public or not, under any name. A name allows itself at public addresses, and is
    judged once it is resolved: its owner may point it at 127.0.0.1 or a cloud's metadata.
    """

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, rules: Iterable[str]) -> Self:
        """Read names, `*.names`, addresses and networks.

        Raises:
            ValueError: some are none of them; the text tells their numbers.
        """
        names, networks, wrong = set[str](), list[Network](), list[str]()
        for number, rule in enumerate(rules, start=1):
            with suppress(ValueError):
                networks.append(_network(rule))
                continue
            name = rule.removeprefix("*.")
            try:
                names.add(rule if rule == "*" else rule.replace(name, checked_host(name)))
            except ValueError:
                wrong.append(f"host {number}")
        if wrong:
            raise ValueError(
                f"{', '.join(wrong)} is no name, address or network: they are like "
                "hooks.example.org, *.example.org, 192.0.2.1, 10.0.0.0/8, with commas between"
            )
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
        dots = (found.start() for found in re.finditer(r"\.", host))
        return any(f"*{host[dot:]}" in self.names for dot in dots)


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


_FORM: Final = re.compile(
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
        found = _FORM.fullmatch(text)
        try:
            if found is not None and int(found["port"]) <= LARGEST_PORT:
                host = found["host"].lower().replace("localhost", "127.0.0.1").strip("[]")
                return cls(ip_address(host), int(found["port"]))
        except ValueError:
            pass
        raise ValueError(
            f'must be an address and a port from 0 to {LARGEST_PORT}, like "127.0.0.1:8520" or '
            '"[::1]:8520"'
        )

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
