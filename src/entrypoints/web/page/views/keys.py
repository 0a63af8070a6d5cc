"""The keys that lead through the page."""

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ..pages import Pages


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""

    async def show(request: Request) -> Response:
        return pages.render(request, "keys.html")

    return [pages.get("/ui/keys", show)]
