"""A view of the page: an operation (`operations`) whose answer is a template, or a redirect.

The function below `shows` gives what its template is about. That below `acts` changes something,
and says where the browser goes on to. Queries and forms are read as those of the API are, but a
field that is left empty is not given, and a time without an offset is in the zone of the reader.
"""

import inspect
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias, get_type_hints

import attrs
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.domain.access import Scope
from cronhare.domain.reading import Fault

from ..access import actor_of, need
from ..asking import Asker
from ..operations import Operation, Reply, Resource, address_after, declared_by, operation
from ..problems import Problem, invalid_request, problem_of
from ..reading import ZONE, pairs_of, received, values_of
from .rendering import Renderer, forget, remember, zone_of

log = logging.getLogger(__name__)

#: What a template is about.
Context: TypeAlias = dict[str, Any]

#: What a page may load and where its forms may go: this site alone, and nothing that stands in it.
_CONTENT_SECURITY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {"Content-Security-Policy": _CONTENT_SECURITY, "Referrer-Policy": "same-origin"}

#: Rows of a list.
_LISTED: Final = 50

#: A page that is open asks for itself again with this header: `static/live.js`.
_LIVE: Final = "x-live"

#: Addresses of which the last answer is kept for those who look as well.
_MOST_KEPT: Final = 64


@attrs.frozen
class view(operation):  # noqa: N801 - it decorates
    """Declares a view; *what* is its template.

    An open page asks for itself every *live* seconds. Where nothing is of the name that was asked
    for, a list is shown as *empty*, with what is *unknown*.
    """

    live: float = attrs.field(default=0, kw_only=True)
    empty: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)


shows = partial(view, "GET", scope=Scope.READ)
acts = partial(view, "POST", scope=Scope.OPERATE)


@attrs.frozen
class Done:
    """Something was changed: the browser goes on to *path*, which begins with what is *said*."""

    path: str
    said: str

    @property
    def response(self) -> Response:
        response = RedirectResponse(self.path, HTTPStatus.SEE_OTHER, headers=HEADERS)
        remember(response, self.said)
        return response


def views_of(views: Resource, renderer: Renderer) -> Iterator["View"]:
    for declared, ask in declared_by(views):
        yield View(declared, ask, renderer)


class View(Operation):
    """What can be looked at, or done, with a browser."""

    declared: view

    def __init__(self, declared: view, ask: Callable[..., Any], renderer: Renderer) -> None:
        super().__init__(declared, ask)
        self._renderer = renderer
        self._kept = dict[tuple[str, ...], tuple[float, Reply[Any]]]()

    async def _answer(self, request: Request) -> Response:
        """Answer those alone who may ask; what its function raises is shown as a page, too."""
        asker: Asker = request.app.state.asker
        try:
            need(actor_of(request), self.declared.scope)
            body = b"" if self.body is None else await received(request)
            if inspect.iscoroutinefunction(self.ask):
                waited = super()._reply(request, body)
                return self._response(request, await waited)  # type: ignore[misc]
            if _LIVE in request.headers:
                async with asker.looks:
                    return await asker.ask(partial(self._shown, request, body))
            return await asker.ask(partial(self._shown, request, body))
        except ClientDisconnect:
            raise
        except Exception as error:
            problem = problem_of(error)
            if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
                log.exception("A page met a fault of ours", extra={"action": "fault"})
            return refuse(self._renderer, request, problem)

    def _shown(self, request: Request, body: bytes) -> Response:
        zone = zone_of(request)
        key, now = (f"{request.url.path}?{request.url.query}", zone.key), time.monotonic()
        before = ZONE.set(zone)
        try:
            kept = self._kept.get(key) if _LIVE in request.headers else None
            if kept is not None and now < kept[0] + self.declared.live:
                return self._response(request, kept[1])
            reply = self._reply(request, body)
            if self.declared.live and isinstance(reply, Reply):
                self._kept[key] = now, reply
                while len(self._kept) > _MOST_KEPT:
                    self._kept.pop(next(iter(self._kept)), None)
            return self._response(request, reply)
        finally:
            ZONE.reset(before)

    def _reply(self, request: Request, body: bytes) -> Any:  # noqa: ANN401 - a page, or another answer
        try:
            reply: Any = super()._reply(request, body)
        except NotFound as error:
            if not self.declared.empty:
                raise
            reply = Reply({**self.declared.empty, "unknown": str(error), "live": 0}, 404)
        if isinstance(reply, dict):
            reply = Reply(reply)
        if isinstance(reply, Reply) and "now" not in reply.value:
            container = request.app.state.asker.container
            reply = attrs.evolve(reply, value={**reply.value, "now": container.queries().now()})
        return reply

    def _named(self, request: Request, faults: list[Fault]) -> dict[str, Any]:
        values = super()._named(request, faults)
        if faults:
            raise Problem(HTTPStatus.NOT_FOUND, "there is no page at this address")
        return values

    def _asked(self, request: Request, faults: list[Fault]) -> dict[str, Any]:
        asked = _said(request.scope["query_string"], self._fields, faults)
        return {"limit": _LISTED, **asked} if "limit" in self._fields else asked

    def _content(self, body: bytes, faults: list[Fault]) -> Mapping[str, Any]:
        hints = get_type_hints(self.body, include_extras=True)
        kinds = {name.removesuffix("_"): kind for name, kind in hints.items()}
        said = _said(body, kinds, faults)
        if faults:
            raise invalid_request(faults)
        return said

    def _response(self, request: Request, reply: Any) -> Response:  # noqa: ANN401 - see `_reply`
        if isinstance(reply, Done):
            return reply.response
        if isinstance(reply, Response):
            return reply
        asked = dict.fromkeys(self._fields, "") | dict(request.query_params)
        is_first = "after" not in request.query_params
        context = {
            "asked": asked,
            "kept": {name: text for name, text in asked.items() if text and name != "after"},
            "first": None if is_first else address_after(request, None),
            "following": None if reply.after is None else address_after(request, reply.after),
            # Beyond a place in the list others come in and go out: only its begin is looked at.
            "live": self.declared.live if is_first else 0,
            "unknown": None,
            **reply.value,
        }
        text = self._renderer.page(request, self.declared.what, **context)
        response = HTMLResponse(text, reply.status or HTTPStatus.OK, {**HEADERS, **reply.headers})
        forget(request, response)
        return response


def _said(text: bytes, kinds: Mapping[str, Any], faults: list[Fault]) -> dict[str, Any]:
    pairs = ((name, each.replace("\r\n", "\n").strip()) for name, each in pairs_of(text))
    return {
        name: value
        for name, value in values_of(pairs, kinds, faults).items()
        if value not in ("", [""])
    }


def refuse(renderer: Renderer, request: Request, problem: Problem) -> Response:
    text = renderer.page(request, "problem.html", problem=problem)
    return HTMLResponse(text, problem.status, headers={**problem.headers, **HEADERS})
