"""Where a process listens: `127.0.0.1:8520`, `[::1]:8520`, `localhost:8520`."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Self

import attrs

from .server_url import LARGEST_PORT

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
