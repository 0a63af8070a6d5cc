"""*Now*: what runs, is late, fails, comes within the hour, and who is there; and the keys."""

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ..bars import minutes_chart
from ..live.feeds import NOW
from ..pages import Pages


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""

    async def show(request: Request) -> Response:
        view = await pages.ask(pages.container.overview().now)
        chart = minutes_chart(view.coming_minutes)
        return pages.render(request, "now.html", now=view.now, view=view, chart=chart, feed=NOW)

    async def keys(request: Request) -> Response:
        return pages.render(request, "keys.html")

    return [pages.get("/", show), pages.get("/ui/keys", keys)]
