"""Asks servers over HTTP/1.1 by the standard library, at addresses that are allowed."""

import asyncio
import re
import ssl
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPMessage
from ipaddress import ip_address
from typing import Final

from cronhare.adapters.connections import Connection, Deadline, look_up
from cronhare.domain.addresses.web import Address, AllowedHosts, WebAddress
from cronhare.domain.schedules.http_call import MOST_SENT, fault_of_name, fault_of_value
from cronhare.domain.texts.printable import echo, shown
from cronhare.ports.system import LONGEST_REQUEST, HttpAnswer, HttpFailed, HttpRefused, HttpRequest

_METHOD: Final = re.compile(r"[A-Z]{1,32}")

LARGEST_BODY: Final = 2**20


def checked(request: HttpRequest) -> None:
    """Make sure that a request says what it seems to say.

    Raises:
        HttpRefused: it may not be sent.
    """
    if not _METHOD.fullmatch(request.method) or request.method == "CONNECT":
        raise HttpRefused("the method must be like GET or POST")
    if len(request.body) > LARGEST_BODY:
        raise HttpRefused(f"the body is larger than {LARGEST_BODY // 2**20} MiB")
    if len(request.headers) > MOST_SENT:
        raise HttpRefused(f"there are more than {MOST_SENT} headers")
    for name, value in request.headers.items():
        if (fault := fault_of_name(name) or fault_of_value(value)) is not None:
            raise HttpRefused(f"the header {echo(name)} {fault}")


def sent_headers(request: HttpRequest, *, agent: str) -> dict[str, str]:
    """Give all headers: the caller's, then ours."""
    theirs = {name.lower() for name in request.headers}
    ours = {
        "Host": host_header(request.address),
        "Connection": "close",
        "Accept-Encoding": "identity",
        "User-Agent": agent,
    }
    if request.body or request.method in {"POST", "PUT", "PATCH"}:
        ours["Content-Length"] = str(len(request.body))
    return {**{name: ours[name] for name in ours if name.lower() not in theirs}, **request.headers}


def host_header(web: WebAddress) -> str:
    """Give the host as the request names it, with a port where it is not the usual one."""
    return str(web).partition("://")[2]


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


#: Bytes of an answer beside the body that is kept: its headers, and what frames its chunks.
_LARGEST_FRAME: Final = 256 * 1024


class Exchange:
    """Its thread calls `run`; another awaits `answer`, and may `give_up`."""

    def __init__(self, request: HttpRequest, *, agent: str, deadline: Deadline) -> None:
        """Begin nothing yet."""
        self.answer: Future[HttpAnswer] = Future()
        self._request = request
        self._agent = agent
        self._connection = Connection(deadline)

    def run(self, hosts: AllowedHosts, look_up: LookUp, tls: Callable[[], ssl.SSLContext]) -> None:
        """Ask, and answer with what came of it; never raises."""
        try:
            answer = self._ask(hosts, look_up, tls)
        except HttpRefused as error:
            self._fail(error)
        # http.client lets all of these out for what a server may write.
        except (OSError, HTTPException, ValueError, OverflowError) as error:
            failed = HttpFailed(f"asking {self._request.address}: {_reason(error)}")
            failed.__cause__ = error
            self._fail(failed)
        except BaseException as error:  # noqa: BLE001 - a fault of ours, for whoever awaits it
            self._fail(error)
        else:
            with suppress(Exception):  # cancelled in the meantime
                self.answer.set_result(answer)

    def give_up(self) -> None:
        """Wake the thread, wherever it waits; safe to repeat, and after the end."""
        self._connection.give_up()

    def _fail(self, error: BaseException) -> None:
        with suppress(Exception):
            self.answer.set_exception(error)

    def _ask(
        self, hosts: AllowedHosts, look_up: LookUp, tls: Callable[[], ssl.SSLContext]
    ) -> HttpAnswer:
        web = self._request.address
        addresses = allowed_addresses(web, hosts, look_up)
        with self._connection.opened(map(str, addresses), web.port):
            if web.is_encrypted:
                self._connection.secure(tls(), web.host)
            return self._talk()

    def _talk(self) -> HttpAnswer:
        """Send the request and read the answer; http.client opens nothing by itself."""
        request, web = self._request, self._request.address
        connection = HTTPConnection(web.host, web.port)
        connection.auto_open = 0
        connection.sock = self._connection.bounded(most=request.most + _LARGEST_FRAME)
        connection.putrequest(request.method, web.target, skip_host=True, skip_accept_encoding=True)
        for name, value in sent_headers(request, agent=self._agent).items():
            connection.putheader(name, value)
        connection.endheaders(request.body)
        answer = connection.getresponse()
        body = answer.read(request.most + 1)
        if len(body) <= request.most and answer.length:  # http.client says nothing of it
            raise HTTPException(f"{answer.length} bytes of what it promised are missing")
        return HttpAnswer(
            status=answer.status,
            headers=_headers(answer.headers),
            body=body[: request.most],
            is_cut=len(body) > request.most,
        )


def _headers(message: HTTPMessage) -> dict[str, str]:
    found = dict[str, str]()
    for name, value in message.items():
        low = name.lower()
        found[low] = f"{found[low]}, {value}" if low in found else str(value)
    return found


def _reason(error: Exception) -> str:
    """Say what went wrong, in a line; what a server wrote is escaped and short."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return shown(text)


#: Requests at a time; one whose look-up hangs keeps its thread until the resolver gives up.
MOST_AT_A_TIME: Final = 256


class HttpClient:
    """Sends each request in a thread of its own, which ends with it.

    Proxies in the environment are not used: they would look the name up anew, and judge nothing.
    """

    def __init__(self, hosts: AllowedHosts, *, agent: str, look_up: LookUp = look_up) -> None:
        """*agent* is what servers are told of us."""
        self._hosts = hosts
        self._agent = agent
        self._look_up = look_up
        self._room = threading.BoundedSemaphore(MOST_AT_A_TIME)

    async def send(self, request: HttpRequest) -> HttpAnswer:
        checked(request)
        seconds = min(request.timeout, LONGEST_REQUEST).total_seconds()
        exchange = Exchange(request, agent=self._agent, deadline=Deadline(seconds))
        self._begin(exchange)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(exchange.answer)
        except TimeoutError as error:
            raise HttpFailed(f"no whole answer within {seconds:g} s") from error
        finally:
            exchange.give_up()

    def _begin(self, exchange: Exchange) -> None:
        """Start the thread. It is a daemon: a resolver that hangs holds up no exit."""
        if not self._room.acquire(blocking=False):
            raise HttpFailed(f"{MOST_AT_A_TIME} requests are on their way, no more is begun")

        def run() -> None:
            try:
                exchange.run(self._hosts, self._look_up, lambda: self._tls)
            finally:
                self._room.release()

        threading.Thread(target=run, name="http", daemon=True).start()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context
