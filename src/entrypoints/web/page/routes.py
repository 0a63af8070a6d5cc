"""All routes of the page, to be hooked into the application."""

from collections.abc import Callable, Iterator
from functools import cache
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ..asking import Asker
from ..problems import Problem
from .pages import Pages
from .rendering import Assets, Renderer
from .views import (
    alerts,
    audit,
    days,
    executions,
    failed,
    live,
    now,
    replays,
    schedule_edit,
    schedules,
    sign_in,
)

#: Each with its `routes`. An address with a word after a schedule's name comes before that name.
VIEWS: Final = (
    now,
    schedule_edit,
    schedules,
    days,
    executions,
    alerts,
    failed,
    replays,
    audit,
    live,
    sign_in,
)


def refusals(asker: Asker) -> Callable[[Request, Problem], Response]:
    """Give what shows people a request that reaches no view."""
    return Pages(asker, _renderer()).refuse


def routes(asker: Asker) -> Iterator[BaseRoute]:
    """Make the routes of the page."""
    pages = Pages(asker, _renderer())
    yield Route("/ui/static/{rest:path}", _assets().answer, methods=["GET"])
    for view in VIEWS:
        yield from view.routes(pages)

    def refuse(_: Request) -> Response:
        raise Problem(HTTPStatus.NOT_FOUND, "there is no page at this address")

    # The last: whatever else is asked for under /ui/ is told as a page.
    yield pages.get("/ui/{rest:path}", refuse, takes=None)


@cache
def _assets() -> Assets:
    return Assets.read()


@cache
def _renderer() -> Renderer:
    """Make the one of this process: compiling templates takes longer than answering with them."""
    return Renderer(_assets())
