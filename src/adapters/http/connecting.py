"""From a host's name to a connection at an address that was judged: what is checked is asked."""

import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from cronhare.domain.addresses import Address, AllowedHosts, WebAddress
from cronhare.ports.http import HttpRefused

from .bounded_socket import Deadline

#: Addresses of one name that are tried.
MOST_ADDRESSES: Final = 4

#: Gives the addresses of a name, or raises an OSError.
LookUp = Callable[[str, int], Iterable[str]]


def look_up(host: str, port: int) -> list[str]:
    """Ask this machine's resolver, which has time limits of its own."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


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


def connect(addresses: Iterable[Address], port: int, deadline: Deadline) -> socket.socket:
    """Connect to the first that answers; each has its share of the time.

    Raises:
        OSError: none did.
    """
    waiting = list(addresses)
    while True:
        address, share = waiting.pop(0), deadline.left / (len(waiting) + 1)
        try:
            return socket.create_connection((str(address), port), timeout=share)
        except OSError:
            if not waiting:
                raise
