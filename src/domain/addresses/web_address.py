"""The address of a request over HTTP: taken apart, and refused where it could mislead a reader.

No error quotes it: webhooks carry their secret in the path.
"""

import re
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Self

import attrs

from .server_url import LARGEST_PORT, LONGEST_LABEL

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
