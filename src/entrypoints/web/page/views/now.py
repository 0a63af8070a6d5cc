"""*Now*: what runs, is late, fails, comes within the hour, and who is there."""

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ..pages import Pages


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""

    async def show(request: Request) -> Response:
        return pages.render(request, "empty.html", title="Now")

    return [pages.get("/", show)]
