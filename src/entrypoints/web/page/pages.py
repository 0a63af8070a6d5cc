"""What each view is given: it asks the use cases, renders their answer, and tells of changes."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypeVar, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from cronhare.domain.access import Scope

from ..access import actor_of, need
from ..asking import Asker
from ..problems import Problem, problem_of
from .asked import read_form, refuse_others
from .rendering import Renderer, forget, remember

log = logging.getLogger(__name__)

T = TypeVar("T")
#: Asks and renders in a thread; one that waits for something else is a coroutine function.
Handler: TypeAlias = Callable[[Request], Response] | Callable[[Request], Awaitable[Response]]

#: What a page may load and where its forms may go: this site alone, and nothing that stands in it.
_CONTENT_SECURITY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": _CONTENT_SECURITY,
    "Referrer-Policy": "same-origin",
}


def status_of(unknown: str | None) -> int:
    """Give the status of a list: what there is not was asked for, if *unknown* says what."""
    return HTTPStatus.OK if unknown is None else HTTPStatus.NOT_FOUND


class Pages:
    """The page of a process."""

    def __init__(self, asker: Asker, renderer: Renderer) -> None:
        """*asker* has the use cases."""
        self.container = asker.container
        self.ending = asker.ending
        self._asker = asker
        self._renderer = renderer

    def get(
        self,
        path: str,
        handler: Handler,
        *,
        scope: Scope = Scope.READ,
        takes: Sequence[str] | None = (),
    ) -> Route:
        """Make the route of something that is looked at; it *takes* these parameters, and no other.

        None is for an address at which nothing is: its parameters are no matter.
        """

        async def expect(request: Request) -> None:
            refuse_others(request, takes)

        return Route(path, self._answered(expect, handler, scope), methods=["GET"])

    def post(
        self, path: str, handler: Handler, *, scope: Scope, takes: Sequence[str] = ()
    ) -> Route:
        """Make the route of a form; it *takes* these fields, and no other: see `form_of`."""

        async def expect(request: Request) -> None:
            await read_form(request, takes)

        return Route(path, self._answered(expect, handler, scope), methods=["POST"])

    async def ask(self, question: Callable[[], T]) -> T:
        """Ask a use case, in a thread."""
        return await self._asker.ask(question)

    def render(
        self,
        request: Request,
        template: str,
        *,
        status: int = HTTPStatus.OK,
        **context: Any,  # noqa: ANN401 - what the template is about
    ) -> Response:
        """Render a whole page; *now*, the ledger's time, is what relative times count from."""
        text = self._renderer.page(request, template, **context)
        response = HTMLResponse(text, status, headers=HEADERS)
        forget(request, response)
        return response

    def fragment(self, template: str, **context: Any) -> str:  # noqa: ANN401 - see `render`
        """Render a piece of a page, which is put into one that is open."""
        return self._renderer.fragment(template, **context)

    def done(self, path: str, said: str) -> Response:
        """Answer a change: the browser goes on to *path*, which begins with what was done."""
        response = RedirectResponse(path, HTTPStatus.SEE_OTHER, headers=HEADERS)
        remember(response, said)
        return response

    def refuse(self, request: Request, problem: Problem) -> Response:
        """Answer a problem as a page."""
        text = self._renderer.page(request, "problem.html", problem=problem)
        return HTMLResponse(text, problem.status, headers={**problem.headers, **HEADERS})

    def _answered(
        self, expect: Callable[[Request], Awaitable[None]], handler: Handler, scope: Scope
    ) -> Callable[[Request], Awaitable[Response]]:
        """Ask a handler for those alone who may; answer what it raises as a page, too."""

        async def answer(request: Request) -> Response:
            try:
                need(actor_of(request), scope)
                await expect(request)
                if inspect.iscoroutinefunction(handler):
                    waited: Response = await handler(request)
                    return waited
                return await self.ask(
                    partial(cast("Callable[[Request], Response]", handler), request)
                )
            except ClientDisconnect:
                raise
            except Exception as error:
                problem = problem_of(error)
                if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
                    log.exception("A page met a fault of ours", extra={"action": "fault"})
                return self.refuse(request, problem)

        return answer
