"""What every request passes first: who asks, from where, and with what. And its line in the log.

Whoever reaches a loopback address may ask, and a browser lets any page of the world reach it. So a
request must be meant for us by its Host (a name that is pointed at 127.0.0.1 is not), must not come
from the page of another site, and must carry JSON, which no form of a page can.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cronhare.application.logs import say
from cronhare.domain.texts.printable import shown
from cronhare.ports import LedgerUnavailable

from .access import (
    NOBODY,
    Gate,
    Meant,
    is_for_people,
    is_from_here,
    is_probe,
    is_visit,
    meant_by,
    to_sign_in,
)
from .problems import Problem, problem_of

log = logging.getLogger(__name__)

#: Methods that change nothing, and those that carry a body.
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_JSON: Final = "application/json"
_SENDING: Final = frozenset({"POST", "PUT", "PATCH"})

#: A merge patch (RFC 7396) is JSON, and no form of a page can send it either.
_ALIAS: Final = {"application/json": "application/merge-patch+json"}

#: Headers of every answer, unless it has its own: those of pages let it load their files.
_ADDED: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)

#: Answers what is refused, where people see it.
Refuse = Callable[[Request, Problem], Response]


class Guard:
    """Refuses what nobody meant for us, finds out who asks, and logs each request."""

    def __init__(self, app: ASGIApp, gate: Gate, *, refuse: Refuse) -> None:
        """Wrap the whole application, its own error handling included.

        *gate* knows who asks; *refuse* shows people a problem, as a page.
        """
        self._app = app
        self._gate = gate
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = _Answer(receive, send)
        try:
            await (await self._admitted(scope))(scope, answer.receive, answer.send)
        except ClientDisconnect:
            pass  # nobody is there any more to be answered
        except Exception:
            # Once it was answered; that it is raised as well is the framework's way.
            log.exception("A request met a fault of ours", extra={"action": "fault"})
            if answer.status is None:
                raise
        finally:
            _log(scope, answer)

    async def _admitted(self, scope: Scope) -> ASGIApp:
        meant = _meant(scope, self._gate.names)
        if isinstance(meant, Problem):
            return meant.response
        if (refused := next(_refusals(scope, meant), None)) is not None:
            return refused.response
        state = scope.setdefault("state", {})
        state |= {"gate": self._gate, "https": meant.is_https, "actor": NOBODY}
        try:
            state["actor"] = await self._gate.admit(scope, meant)
        except (Problem, LedgerUnavailable) as error:
            problem, request = problem_of(error), Request(scope)
            if not is_for_people(scope):
                return problem.response
            is_unknown = problem.status == HTTPStatus.UNAUTHORIZED
            return to_sign_in(request) if is_unknown else self._refuse(request, problem)
        return self._app


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


def _meant(scope: Scope, names: Collection[str]) -> Meant | Problem:
    host = _only(Headers(scope=scope), "host")
    meant = None if host is None else meant_by(host, scope, names)
    if meant is None:
        detail = (
            "the Host header names neither this address nor localhost, nor is it among "
            "CRON_WEB_HOSTS"
        )
        return Problem(HTTPStatus.MISDIRECTED_REQUEST, detail)
    return meant


def _refusals(scope: Scope, meant: Meant) -> Iterator[Problem]:
    headers = Headers(scope=scope)
    origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
    foreign = any(origin.lower() != meant.origin for origin in origins)
    if foreign or not (is_from_here(sites) or is_visit(scope)):
        detail = "it comes from a page of another site, and none of them may ask"
        if foreign and not meant.is_https and "https" in origins[0]:
            detail += ". Behind a proxy: have it pass the Host on, and name that in CRON_WEB_HOSTS"
        yield Problem(HTTPStatus.FORBIDDEN, detail)
    if scope["method"] in _SENDING:
        yield from _refusals_of_body(headers, _kind_of_body(scope))
    is_form = _kind_of_body(scope) != _JSON and scope["method"] not in _READING
    if is_form and not (origins or sites):
        detail = "a form says where it comes from, in Origin or Sec-Fetch-Site: use the API"
        yield Problem(HTTPStatus.FORBIDDEN, detail)


def _kind_of_body(scope: Scope) -> str:
    is_page = scope["path"].startswith("/ui/")
    return "application/x-www-form-urlencoded" if is_page else _JSON


def _refusals_of_body(headers: Headers, allowed: str) -> Iterator[Problem]:
    kind, _, parameters = (_only(headers, "content-type") or "").partition(";")
    charset = parameters.replace(" ", "").replace('"', "").lower()
    if kind.strip().lower() not in {allowed, _ALIAS.get(allowed)} or charset not in {
        "",
        "charset=utf-8",
    }:
        what = "JSON" if allowed == _JSON else "a form"
        detail = f"the body is to be {what}: Content-Type: {allowed}"
        yield Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail, headers={"Accept-Post": allowed})
    if headers.getlist("content-encoding"):
        detail = "the body is to be sent as it is, without Content-Encoding"
        yield Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)


def _only(headers: Headers, name: str) -> str | None:
    """Give a header that is there once; with several a proxy and we could mean different ones."""
    found = headers.getlist(name)
    return found[0] if len(found) == 1 else None


def _log(scope: Scope, answer: _Answer) -> None:
    """Log path and status: no query, no header and no body, which may hold secrets."""
    spent = (time.monotonic() - answer.began) * 1000
    said = f"{answer.status}" if answer.status else "not answered, the client is gone"
    text = f"{shown(scope['method'])} {shown(scope['path'])}: {said}"
    client = (scope.get("client") or ("",))[0]
    is_read = scope["method"] in _READING and (answer.status or 0) < HTTPStatus.BAD_REQUEST
    level = logging.DEBUG if is_read else logging.INFO
    if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        level = logging.DEBUG if is_probe(scope) else logging.WARNING
    say(log, level, "web.request", text, client=client, duration=f"{spent:.0f}ms")
