"""Which hosts may be asked over HTTP: a name that is allowed, at an address that is public.

A name says nothing about where it leads: its owner points it at 127.0.0.1 or at the metadata of a
cloud whenever he likes. So addresses are judged after the name was resolved.
"""

from collections.abc import Iterable
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self

import attrs

from .web_address import WebAddress, checked_host

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
