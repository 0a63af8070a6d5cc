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
from ..live.feeds import NOW, Feed, OutputFeed, PartsFeed, now_parts
from ..live.stream import EventStream
from ..pages import Pages
from . import queues, replays


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
        if (id_ := replays.id_of_feed(request.query_params.get("feed", ""))) is not None:
            await pages.ask(partial(replays.parts, pages, id_))
        after = request.headers.get("last-event-id")
        return EventStream(broadcast, key, make, after=after)

    return [pages.get("/ui/live", listen)]


def _asked(pages: Pages, request: Request) -> tuple[str, Callable[[], Feed]]:
    feed, text = request.query_params.get("feed"), request.query_params.get("execution", "")
    if feed == NOW:
        return NOW, lambda: PartsFeed(
            partial(now_parts, pages.container.overview(), pages.fragment)
        )
    if feed == queues.FEED:
        return feed, lambda: PartsFeed(partial(queues.parts, pages), every=queues.EVERY)
    if (id_ := replays.id_of_feed(feed or "")) is not None:
        return f"replay {id_}", lambda: PartsFeed(partial(replays.parts, pages, id_))
    if text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_ID)):
        return f"execution {int(text)}", lambda: OutputFeed(pages.container.records(), int(text))
    feeds = f"feed={NOW}, feed={queues.FEED}, feed={replays.FEED}ID"
    detail = f"there is no such feed; there is {feeds}, and execution=ID"
    raise Problem(HTTPStatus.NOT_FOUND, detail)
