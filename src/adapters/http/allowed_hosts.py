"""Whom we may ask over HTTP: what is public, and what the settings name."""

from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_network
from typing import Final, Self

import attrs

from cronhare.domain.addresses import Address, WebAddress, checked_host

_HAS_IT_NOT: Final = "CRON_HTTP_ALLOWED_HOSTS does not have it"


@attrs.frozen(kw_only=True)
class AllowedHosts:
    """Names and networks that may be asked; without any, all that is public may.

    `*.example.org` is each name below example.org, `*` is each name. A network allows its
    addresses, public or not, under any name. A name allows itself at public addresses, and is
    judged once it is resolved: its owner may point it at 127.0.0.1 or a cloud's metadata.
    """

    names: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def parse(cls, rules: Iterable[str]) -> Self:
        """Read names, `*.names`, addresses and networks.

        Raises:
            ValueError: some are none of them; the text tells their numbers.
        """
        names, networks, wrong = set[str](), list[IPv4Network | IPv6Network](), list[str]()
        for number, rule in enumerate(rules, start=1):
            with suppress(ValueError):
                networks.append(ip_network(rule.removeprefix("[").removesuffix("]")))
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
        if web.address is not None:
            return None if self.allows(web, web.address) else self._why(web, web.address)
        if self.networks or self._has(web.host):
            return None
        return f"the host {web.host} is not allowed: {_HAS_IT_NOT}"

    def allows(self, web: WebAddress, address: Address) -> bool:
        address = _meant(address)
        if any(address in network for network in self.networks):
            return True
        return self._has(web.host) and is_public(address)

    def refusal_of_all(self, web: WebAddress, addresses: Iterable[Address]) -> str:
        return next((self._why(web, each) for each in addresses), f"{web.host} has no address")

    def _why(self, web: WebAddress, address: Address) -> str:
        if self._has(web.host):
            at = "" if web.address is not None else f" of {web.host}"
            return f"the address {address}{at} is not public, and {_HAS_IT_NOT}"
        return f"the host {web.host} is not allowed: {_HAS_IT_NOT}"

    def _has(self, host: str) -> bool:
        if not self.names and not self.networks:
            return True
        labels = host.split(".")
        above = {".".join(["*", *labels[place:]]) for place in range(1, len(labels))}
        return not self.names.isdisjoint({"*", host, *above})


#: What IANA gives out to anyone; of it, what leads inside all the same: Azure's host, protocols,
#: the relays of 6to4, Teredo, 6to4, documentation. Patches of Python differ in some of these.
_GIVEN_OUT: Final = IPv6Network("2000::/3")
_INSIDE: Final = tuple(
    map(
        ip_network,
        (
            "168.63.129.16/32",
            "192.0.0.0/24",
            "192.88.99.0/24",
            "2001::/23",
            "2002::/16",
            "3fff::/20",
        ),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    address = _meant(address)
    if not address.is_global or address.is_multicast or any(address in each for each in _INSIDE):
        return False
    return isinstance(address, IPv4Address) or address in _GIVEN_OUT


def _meant(address: Address) -> Address:
    """Give the IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else address
