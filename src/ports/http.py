"""Asking a server of others over HTTP."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Protocol

import attrs

from cronhare.domain.addresses import WebAddress

#: Bytes of an answer's body that are kept, unless a caller asks for fewer or more.
KEPT_OF_ANSWER: Final = 64 * 1024

LONGEST_REQUEST: Final = timedelta(minutes=15)


class HttpRefused(ValueError):
    """The host, its address or the request is not allowed: asking again changes nothing."""


class HttpFailed(Exception):
    """There was no whole answer: no address, connection, or time, or what came is no HTTP.

    The server may have acted on the request.
    """


@attrs.frozen(kw_only=True)
class HttpRequest:
    """What a server is asked. *timeout* covers all of it, the look-up of its name included."""

    method: str
    address: WebAddress
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)
    body: bytes = attrs.field(default=b"", repr=False)
    timeout: timedelta = timedelta(seconds=30)
    most: int = KEPT_OF_ANSWER


@attrs.frozen(kw_only=True)
class HttpAnswer:
    """What a server answered: any status, redirects included.

    *headers* have lower-case names; several of one name are joined by a comma. *body* is its first
    bytes, and *is_cut* tells whether there were more.
    """

    status: int
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)
    body: bytes = attrs.field(default=b"", repr=False)
    is_cut: bool = False

    @property
    def is_success(self) -> bool:
        """Whether the status is 200 to 299."""
        return 200 <= self.status < 300  # noqa: PLR2004 - RFC 9110


class HttpPort(Protocol):
    """Asks servers, each at most once per call: no redirect is followed, nothing is repeated."""

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """Send a request, and wait for the answer.

        Cancelled, it gives up the connection and does not wait for it.

        Raises:
            HttpRefused: it may not be sent; nobody was asked.
            HttpFailed: there is no answer.
        """
        ...
