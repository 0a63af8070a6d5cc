"""Asks servers over HTTP/1.1 by the standard library, at addresses that are allowed."""

import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property, partial
from http.client import HTTPConnection, HTTPException, HTTPMessage
from ipaddress import ip_address
from typing import Final

from cronhare.adapters.connections import Connection, Conversations, look_up
from cronhare.adapters.http.allowed_hosts import AllowedHosts
from cronhare.domain.addresses import Address, WebAddress
from cronhare.domain.texts.printable import shown
from cronhare.ports.system import LONGEST_REQUEST, HttpAnswer, HttpFailed, HttpRefused, HttpRequest

#: Requests at a time; one whose look-up hangs keeps its thread until the resolver gives up.
MOST_AT_A_TIME: Final = 256

#: Addresses of one name that are tried.
MOST_ADDRESSES: Final = 4

#: Bytes of an answer beside the body that is kept: its headers, and what frames its chunks.
_LARGEST_FRAME: Final = 256 * 1024

#: Gives the addresses of a name, or raises an OSError.
LookUp = Callable[[str, int], Iterable[str]]


class HttpClient:
    """Sends each request in a thread of its own, which ends with it.

    Proxies in the environment are not used: they would look the name up anew, and judge nothing.
    """

    def __init__(self, hosts: AllowedHosts, *, agent: str, look_up: LookUp = look_up) -> None:
        self._hosts = hosts
        self._agent = agent
        self._look_up = look_up
        self._conversations = Conversations(MOST_AT_A_TIME, what="request")

    async def send(self, request: HttpRequest) -> HttpAnswer:
        seconds = min(request.timeout, LONGEST_REQUEST).total_seconds()
        try:
            return await self._conversations.hold(partial(self._ask, request), seconds=seconds)
        except HttpRefused:
            raise
        except TimeoutError as error:
            raise HttpFailed(f"no whole answer within {seconds:g} s") from error
        # http.client lets these out for what a server may write, and headers that it refuses.
        except (OSError, HTTPException, ValueError, OverflowError) as error:
            raise HttpFailed(f"asking {request.address}: {_reason(error)}") from error

    def _ask(self, request: HttpRequest, connection: Connection) -> HttpAnswer:
        web = request.address
        with connection.opened(map(str, self._allowed(web)), web.port):
            if web.is_encrypted:
                connection.secure(self._tls, web.host)
            http = HTTPConnection(web.host, web.port)
            http.auto_open = 0  # it opens nothing by itself
            http.sock = connection.bounded(most=request.most + _LARGEST_FRAME)
            http.putrequest(request.method, web.target, skip_host=True, skip_accept_encoding=True)
            for name, value in _headers(request, agent=self._agent).items():
                http.putheader(name, value)
            http.endheaders(request.body)
            answer = http.getresponse()
            body = answer.read(request.most + 1)
        if len(body) <= request.most and answer.length:  # http.client says nothing of it
            raise HTTPException(f"{answer.length} bytes of what it promised are missing")
        return HttpAnswer(
            status=answer.status,
            headers=_joined(answer.headers),
            body=body[: request.most],
            is_cut=len(body) > request.most,
        )

    def _allowed(self, web: WebAddress) -> list[Address]:
        """Give the addresses at which a host may be asked: what is judged here is asked."""
        if (why := self._hosts.refusal(web)) is not None:
            raise HttpRefused(why)
        if web.address is not None:
            return [web.address]
        found = []
        for text in self._look_up(web.host, web.port):
            with suppress(ValueError):  # one with a zone, fe80::1%eth0, is this machine's alone
                found.append(ip_address(text))
        allowed = [each for each in found if self._hosts.allows(web, each)]
        if not allowed:
            raise HttpRefused(self._hosts.refusal_of_all(web, found))
        return allowed[:MOST_ADDRESSES]

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def _headers(request: HttpRequest, *, agent: str) -> dict[str, str]:
    theirs = {name.lower() for name in request.headers}
    ours = {
        "Host": str(request.address).partition("://")[2],  # a port where it is not the usual one
        "Connection": "close",
        "Accept-Encoding": "identity",
        "User-Agent": agent,
    }
    if request.body or request.method in {"POST", "PUT", "PATCH"}:
        ours["Content-Length"] = str(len(request.body))
    return {**{name: ours[name] for name in ours if name.lower() not in theirs}, **request.headers}


def _joined(message: HTTPMessage) -> dict[str, str]:
    found = dict[str, str]()
    for name, value in message.items():
        low = name.lower()
        found[low] = f"{found[low]}, {value}" if low in found else str(value)
    return found


def _reason(error: Exception) -> str:
    return shown(getattr(error, "strerror", None) or str(error) or type(error).__name__)
