"""The live side of the page: `/ui/live?feed=now`, `/ui/live?execution=ID`."""

from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.domain.messages.messages import LARGEST_ID

from ...problems import Problem
from ..live.broadcast import Broadcast
from ..live.feeds import NOW, Feed, NowFeed, OutputFeed
from ..live.stream import EventStream
from ..pages import Pages


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""
    broadcast = Broadcast(pages.ask)

    async def listen(request: Request) -> Response:
        key, make = _asked(pages, request)
        if "execution" in request.query_params:
            # A page about nothing is told so at once.
            await pages.ask(
                partial(pages.container.queries().execution, int(request.query_params["execution"]))
            )
        after = request.headers.get("last-event-id")
        return EventStream(broadcast, key, make, after=after)

    return [pages.get("/ui/live", listen)]


def _asked(pages: Pages, request: Request) -> tuple[str, Callable[[], Feed]]:
    feed, text = request.query_params.get("feed"), request.query_params.get("execution", "")
    if feed == NOW:
        return NOW, lambda: NowFeed(pages.container.overview(), pages.fragment)
    if text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_ID)):
        return f"execution {int(text)}", lambda: OutputFeed(pages.container.records(), int(text))
    detail = f"there is no such feed; there is feed={NOW}, and execution=ID"
    raise Problem(HTTPStatus.NOT_FOUND, detail)
