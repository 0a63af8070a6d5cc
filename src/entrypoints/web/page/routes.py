"""All routes of the page, to be hooked into the application."""

from collections.abc import Iterator

from starlette.routing import BaseRoute, Route

from ..asking import Asker
from .assets import Assets
from .pages import Pages
from .rendering import Renderer
from .views import VIEWS, missing


def routes(asker: Asker) -> Iterator[BaseRoute]:
    """Make the routes of the page."""
    assets = Assets.read()
    pages = Pages(asker, Renderer(assets))
    yield Route("/ui/static/{rest:path}", assets.answer, methods=["GET"])
    for view in VIEWS:
        yield from view(pages)
    # The last: whatever else is asked for under /ui/ is told as a page.
    yield from missing.routes(pages)
