"""The live side of the page: `/ui/live?feed=now`, `/ui/live?execution=ID`."""

from collections.abc import Iterable
from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ...problems import Problem
from ..asked import number_behind
from ..live import LESS_OFTEN, NOW, OFTEN, Feed, OutputFeed, PartsFeed, Render, Streams, now_parts
from ..pages import Pages
from . import alerts, now, replays, schedules


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""
    streams = Streams(pages.ask, pages.ending)

    async def listen(request: Request) -> Response:
        return await streams.open(_feed(pages, streams, request))

    return [pages.get("/ui/live", listen, takes=("feed", "execution"))]


def _feed(pages: Pages, streams: Streams, request: Request) -> Feed:
    asked = request.query_params
    feed, execution = asked.get("feed", ""), f"execution-{asked.get('execution', '')}"
    if len(asked) == 1:
        if (id_ := number_behind("execution-", execution)) is not None:
            after = request.headers.get("last-event-id")
            return OutputFeed(streams.ask, pages.container.records(), id_, after=after)
        if (found := _parts(pages, feed)) is not None:
            render, every = found
            return PartsFeed(streams.look(feed, render, every=every))
    known = (NOW, now.FEED, alerts.FEED, f"{schedules.FEED}ID", f"{replays.FEED}ID")
    feeds = ", ".join(f"feed={name}" for name in known)
    detail = f"there is no such feed; there is {feeds}, and execution=ID"
    raise Problem(HTTPStatus.NOT_FOUND, detail)


def _parts(pages: Pages, feed: str) -> tuple[Render, float] | None:
    """Give what renders the parts of a feed, and the seconds between two looks."""
    if feed == NOW:
        return partial(now_parts, pages.container.overview(), pages.fragment), OFTEN
    if feed == now.FEED:
        return partial(now.parts, pages), LESS_OFTEN
    if (which := alerts.filter_of_feed(feed)) is not None:
        return partial(alerts.parts, pages, which), LESS_OFTEN
    if (id_ := number_behind(schedules.FEED, feed)) is not None:
        return schedules.ScheduleParts(pages, id_), LESS_OFTEN
    if (id_ := number_behind(replays.FEED, feed)) is not None:
        return partial(replays.parts, pages, id_), OFTEN
    return None
