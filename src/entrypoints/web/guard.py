"""What every request passes first: who asks, from where, and with what. And its line in the log.

Whoever reaches a loopback address may ask, and a browser lets any page of the world reach it. So a
request must be meant for us by its Host (a name that is pointed at 127.0.0.1 is not), must not come
from the page of another site, and must carry JSON, which no form of a page can.
"""

import logging
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cronhare.application.logs import say
from cronhare.domain import access
from cronhare.domain.access import LOCAL, Actor, Channel
from cronhare.domain.addresses import ListenAddress
from cronhare.domain.texts.echo import shown

from .bodies import LARGEST_BODY, too_large
from .problems import Problem
from .protocol import LARGEST_HEAD

log = logging.getLogger(__name__)

#: Methods that change nothing, and those that carry a body.
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SENDING: Final = frozenset({"POST", "PUT", "PATCH"})

#: A merge patch (RFC 7396) is JSON, and no form of a page can send it either.
_ALIAS: Final = {"application/json": "application/merge-patch+json"}

#: Headers of every answer, unless it has its own: those of pages let it load their files.
_ADDED: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)


class Guard:
    """Refuses what nobody meant for us, and logs each request; wraps the application."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap the whole application, its own error handling included."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; see ASGI."""
        if scope["type"] != "http":
            return
        answer = _Answer(receive, send)
        try:
            if (problem := next(_refusals(scope), None)) is not None:
                await problem.response(scope, receive, answer.send)
            else:
                scope.setdefault("state", {})["actor"] = _whoever(scope)
                await self._app(scope, answer.receive, answer.send)
        except ClientDisconnect:
            pass  # nobody is there any more to be answered
        except Exception:
            # Once it was answered; that it is raised as well is the framework's way.
            log.exception("A request met a fault of ours", extra={"action": "fault"})
            if answer.status is None:
                raise
        finally:
            _log(scope, answer)


class _Answer:
    """Sends an answer, with the headers that each has, and remembers its status.

    None was sent to a client that is gone, or whose body has not come in time: what the framework
    makes of that is a 500, which nobody gets.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._is_gone = False
        self.status: int | None = None
        self.began = time.monotonic()

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_gone = self._is_gone or message["type"] == "http.disconnect"
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and not self._is_gone:
            self.status = message["status"]
            given = {name.lower() for name, _ in message["headers"]}
            added = (each for each in _ADDED if each[0] not in given)
            message = {**message, "headers": [*message["headers"], *added]}
        await self._send(message)


def _refusals(scope: Scope) -> Iterator[Problem]:
    headers = Headers(scope=scope)
    host = _only(headers, "host")
    if host is None or not _is_ours(host, scope):
        detail = "the Host header names neither this address nor localhost"
        yield Problem(HTTPStatus.MISDIRECTED_REQUEST, detail)
    origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
    foreign = any(origin.lower() != f"http://{host}".lower() for origin in origins)
    if foreign or any(site not in {"same-origin", "none"} for site in sites):
        detail = "it comes from a page of another site, and none of them may ask"
        yield Problem(HTTPStatus.FORBIDDEN, detail)
    if len(headers.getlist("idempotency-key")) > 1:
        yield Problem(
            HTTPStatus.BAD_REQUEST, "it has several Idempotency-Key headers; one names it"
        )
    if _size_of_head(scope) > LARGEST_HEAD:
        yield Problem(HTTPStatus.BAD_REQUEST, f"the head is to have at most {LARGEST_HEAD:,} bytes")
    if scope["method"] in _SENDING:
        yield from _refusals_of_body(headers, _kind_of_body(scope))


def _kind_of_body(scope: Scope) -> str:
    """Give the one kind of body that may be sent: a form on the page, and JSON elsewhere."""
    is_page = scope["path"].startswith("/ui/")
    return "application/x-www-form-urlencoded" if is_page else "application/json"


def _whoever(scope: Scope) -> Actor:
    is_page = scope["path"] == "/" or scope["path"].startswith("/ui/")
    channel = Channel.PAGE if is_page else Channel.API
    return Actor(name=LOCAL, channel=channel, scope=access.Scope.ADMIN)


def _refusals_of_body(headers: Headers, allowed: str) -> Iterator[Problem]:
    kind, _, parameters = (_only(headers, "content-type") or "").partition(";")
    charset = parameters.replace(" ", "").replace('"', "").lower()
    if kind.strip().lower() not in {allowed, _ALIAS.get(allowed)} or charset not in {
        "",
        "charset=utf-8",
    }:
        what = "JSON" if allowed == "application/json" else "a form"
        detail = f"the body is to be {what}: Content-Type: {allowed}"
        yield Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail, headers={"Accept-Post": allowed})
    if headers.getlist("content-encoding"):
        detail = "the body is to be sent as it is, without Content-Encoding"
        yield Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)
    length = headers.get("content-length", "").lstrip("0") or "0"
    if len(length) > len(str(LARGEST_BODY)) or int(length) > LARGEST_BODY:
        yield too_large()


def _size_of_head(scope: Scope) -> int:
    """Count the bytes of a head: the protocol bounds those alone that come in several pieces."""
    line = len(scope["method"]) + len(scope["raw_path"]) + len(scope["query_string"])
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])


def _only(headers: Headers, name: str) -> str | None:
    """Give a header that is there once; with several a proxy and we could mean different ones."""
    found = headers.getlist(name)
    return found[0] if len(found) == 1 else None


def _is_ours(host: str, scope: Scope) -> bool:
    """Tell whether a Host names a loopback address, or where the request came in."""
    has_port = ":" in host.rpartition("]")[2]
    try:
        address = ListenAddress.parse(host if has_port else f"{host}:80")
    except ValueError:
        return False
    server = scope.get("server") or ("", 0)
    return address.is_loopback or str(address.host) == server[0]


def _log(scope: Scope, answer: _Answer) -> None:
    """Log path and status: no query, no header and no body, which may hold secrets."""
    spent = (time.monotonic() - answer.began) * 1000
    said = f"{answer.status}" if answer.status else "not answered, the client is gone"
    text = f"{shown(scope['method'])} {shown(scope['path'])}: {said}"
    client = (scope.get("client") or ("",))[0]
    is_read = scope["method"] in _READING and (answer.status or 0) < HTTPStatus.BAD_REQUEST
    level = logging.DEBUG if is_read else logging.INFO
    if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        level = logging.WARNING
    say(log, level, "web.request", text, client=client, duration=f"{spent:.0f}ms")
