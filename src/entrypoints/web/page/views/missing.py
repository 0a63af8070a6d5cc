"""What no view answers: a view that is not there yet, or an address that is nobody's."""

from collections.abc import Iterable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ...problems import Problem
from ..navigation import WAYS
from ..pages import Pages


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes; they come last."""

    async def empty(request: Request) -> Response:
        title = next(way.title for way in WAYS if way.path == request.url.path)
        return pages.render(request, "empty.html", title=title)

    async def refuse(_: Request) -> Response:
        raise Problem(HTTPStatus.NOT_FOUND, "there is no page at this address")

    return [
        *(pages.get(way.path, empty) for way in WAYS),
        pages.get("/ui/{rest:path}", refuse, takes=None),
    ]
