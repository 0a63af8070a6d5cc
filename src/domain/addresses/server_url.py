"""A server's URL, taken apart: who asks, at which hosts, for what.

No error quotes any part of a URL: an unescaped sign makes a user, a host or an option of what was
meant as a password.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import quote, unquote

import attrs

LONGEST_URL: Final = 8_192
MOST_HOSTS: Final = 16
LARGEST_PORT: Final = 65_535

ESCAPES: Final = (
    "in a user or password @ is written as %40, : as %3A, / as %2F, ? as %3F, # as %23, % as %25"
)

#: A resolver encodes each part of a name between dots by itself, and fails over any other length.
LONGEST_LABEL: Final = 63

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?")
_LABEL: Final = rf"[^.]{{1,{LONGEST_LABEL}}}"
_LABELS: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x20\x7f-\xa0\ud800-\udfff]")
_NO_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


@attrs.frozen(order=True)
class Host:
    """One server of perhaps several that serve the same."""

    name: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether what is sent there stays on this machine."""
        try:
            return ip_address(self.name).is_loopback
        except ValueError:
            return self.name.lower() == "localhost"

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


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
        host: str | None = None,
    ) -> "ServerUrl":
        """Read a URL; *ports* has the schemes with their usual ports.

        *host* is meant where none is named; without it, one must be.

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it.
        """
        if len(url) > LONGEST_URL:
            raise ValueError(f"is longer than {LONGEST_URL:,} characters")
        if _UNPRINTABLE.search(url):
            raise ValueError("has a blank or a control character: write it as %20, %0A, …")
        head = _SCHEME.match(url)
        if head is None or (scheme := head[1].lower()) not in ports:
            raise ValueError(f'must be like "{example}"')
        who, places, place, query = _parts(url[head.end() :])
        user, _, password = (who or "").partition(":")
        return cls(
            scheme=scheme,
            hosts=tuple(_hosts(places, ports[scheme], host, example)),
            user=_decoded(user) or None,
            password=_decoded(password) or None,
            place=None if place is None else _decoded(place),
            options=_options(query, options),
        )

    def __str__(self) -> str:
        place = "" if self.place is None else f"/{quote(self.place, safe='')}"
        return f"{self.scheme}://{','.join(map(str, self.hosts))}{place}"


def _parts(rest: str) -> tuple[str | None, str, str | None, str]:
    """Part what follows the scheme: user and password, hosts, place, query."""
    if "#" in rest:
        raise ValueError(f"has a #: {ESCAPES}")
    path_and_hosts, _, query = rest.partition("?")
    authority, slash, place = path_and_hosts.partition("/")
    who, at, hosts = authority.rpartition("@")
    if "@" in who or "@" in place or "@" in query:
        raise ValueError(
            f"has an @ too many, or a sign before it that ends the password: {ESCAPES}"
        )
    return who if at else None, hosts, place if slash else None, query


def _hosts(text: str, port: int, usual: str | None, example: str) -> Iterator[Host]:
    if not text and usual is not None:
        yield Host(usual, port)
        return
    places = text.split(",")
    if len(places) > MOST_HOSTS:
        raise ValueError(f"names more than {MOST_HOSTS} hosts")
    seen = set[Host]()
    for number, place in enumerate(places, start=1):
        host = _host(place, port, which="the host" if len(places) == 1 else f"host {number}")
        if host is None:
            raise ValueError(f'names no host where one is needed: it must be like "{example}"')
        if host not in seen:
            seen.add(host)
            yield host


def _host(text: str, usual: int, *, which: str) -> Host | None:
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        if not bracket or not _is_v6(name) or (rest and not rest.startswith(":")):
            raise ValueError(f"{which} is no IPv6 address in brackets; {ESCAPES}")
        port = rest[1:] if rest else None
    else:
        name, colon, after = text.partition(":")
        port = after if colon else None
        if not name:
            return None
        if not _NAME.fullmatch(name):
            raise ValueError(f"{which} is no host name or address; {ESCAPES}")
        if not _LABELS.fullmatch(name):
            raise ValueError(
                f"{which} has two dots in a row, or more than {LONGEST_LABEL} characters between "
                "two: a host name is like node-1.example.org"
            )
    if port is None:
        return Host(name, usual)
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= LARGEST_PORT):  # noqa: PLR2004 - the digits of the largest
        raise ValueError(f"{which} has a port that is no number from 1 to {LARGEST_PORT}")
    return Host(name, int(port))


def _is_v6(text: str) -> bool:
    if "%" in text:  # a zone, which a name of the host file has in a plainer way
        return False
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _options(query: str, known: Collection[str]) -> Mapping[str, str]:
    """Read the options. Their names may be a piece of a password: none is quoted."""
    found = dict[str, str]()
    for number, pair in enumerate(filter(None, query.split("&")), start=1):
        name, equals, value = pair.partition("=")
        if name not in known:
            close = get_close_matches(name.lower()[:64], known, n=1, cutoff=0.6)
            meant = f"did you mean {close[0]}? " if close else ""
            allowed = f"known are {', '.join(known)}" if known else "there are none"
            raise ValueError(
                f"has an option that is not known, number {number} after the ?: {meant}{allowed}. "
                "User and password stand before the host"
            )
        if not equals or not value or name in found:
            raise ValueError(f"{name} must be given once, with a value")
        found[name] = _decoded(value)
    return found


def _decoded(text: str) -> str:
    if _NO_ESCAPE.search(text):
        raise ValueError(f"has a % that begins no escape: {ESCAPES}")
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("has escapes that are no UTF-8") from None
    if any(ord(sign) < 0x20 or ord(sign) == 0x7F for sign in decoded):  # noqa: PLR2004 - ASCII's
        raise ValueError("has a control character, such as %00")
    return decoded
