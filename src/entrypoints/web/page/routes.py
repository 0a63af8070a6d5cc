"""All routes of the page, to be hooked into the application."""

from collections.abc import Callable, Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ..asking import Asker
from ..problems import Problem
from .assets import Assets
from .pages import Pages
from .rendering import Renderer
from .views import VIEWS, missing


def refusals(asker: Asker) -> Callable[[Request, Problem], Response]:
    """Give what shows people a request that reaches no view."""
    return Pages(asker, Renderer(Assets.read())).refuse


def routes(asker: Asker) -> Iterator[BaseRoute]:
    """Make the routes of the page."""
    assets = Assets.read()
    pages = Pages(asker, Renderer(assets))
    yield Route("/ui/static/{rest:path}", assets.answer, methods=["GET"])
    for view in VIEWS:
        yield from view(pages)
    # The last: whatever else is asked for under /ui/ is told as a page.
    yield from missing.routes(pages)
