"""From a host's name to addresses that were judged: what is checked is asked."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from cronhare.domain.addresses.web import Address, AllowedHosts, WebAddress
from cronhare.ports.system import HttpRefused

#: Addresses of one name that are tried.
MOST_ADDRESSES: Final = 4

#: Gives the addresses of a name, or raises an OSError.
LookUp = Callable[[str, int], Iterable[str]]


def allowed_addresses(web: WebAddress, hosts: AllowedHosts, look_up: LookUp) -> list[Address]:
    """Give the addresses at which a host may be asked, at least one.

    Raises:
        HttpRefused: it may not be asked, at none of them.
        OSError: its name could not be looked up.
    """
    if (why := hosts.refusal(web)) is not None:
        raise HttpRefused(why)
    if web.address is not None:
        return [web.address]
    found = []
    for text in look_up(web.host, web.port):
        with suppress(ValueError):  # one with a zone, fe80::1%eth0, is this machine's alone
            found.append(ip_address(text))
    allowed = [each for each in found if hosts.allows(web, each)]
    if not allowed:
        raise HttpRefused(hosts.refusal_of_all(web, found))
    return allowed[:MOST_ADDRESSES]
