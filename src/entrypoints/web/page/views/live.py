"""The live side of the page: `/ui/live?feed=now`, `/ui/live?execution=ID`."""

from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.domain.messages import LARGEST_ID

from ...problems import Problem
from ..asked import number_behind
from ..live import LESS_OFTEN, NOW, Broadcast, EventStream, Feed, OutputFeed, PartsFeed, now_parts
from ..pages import Pages
from . import alerts, now, replays, schedules


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""
    broadcast = Broadcast(pages.ask)

    async def listen(request: Request) -> Response:
        key, make = _asked(pages, request)
        if (execution := _execution(request)) is not None:
            # A page about nothing is told so at once.
            await pages.ask(partial(pages.container.queries().execution, execution))
        feed = _feed(request)
        if (id_ := number_behind(replays.FEED, feed)) is not None:
            await pages.ask(partial(replays.parts, pages, id_))
        if (id_ := number_behind(schedules.FEED, feed)) is not None:
            await pages.ask(partial(pages.container.queries().schedule_with_id, id_))
        which = alerts.filter_of_feed(feed or "")
        if which is not None and which.schedule is not None:
            desk = pages.container.alert_desk()
            await pages.ask(partial(desk.alerts, which, limit=1))
        after = request.headers.get("last-event-id")
        return EventStream(broadcast, key, make, after=after)

    return [pages.get("/ui/live", listen, takes=("feed", "execution"))]


def _asked(pages: Pages, request: Request) -> tuple[str, Callable[[], Feed]]:
    feed, execution = _feed(request), _execution(request)
    if feed == NOW:
        return NOW, lambda: PartsFeed(
            partial(now_parts, pages.container.overview(), pages.fragment)
        )
    if feed == now.FEED:
        return feed, lambda: PartsFeed(partial(now.parts, pages), every=LESS_OFTEN)
    if (which := alerts.filter_of_feed(feed or "")) is not None:
        look = partial(alerts.parts, pages, which)
        return repr(which), lambda: PartsFeed(look, every=LESS_OFTEN)
    if (id_ := number_behind(schedules.FEED, feed)) is not None:
        one = schedules.ScheduleParts(pages, id_)
        return f"schedule {id_}", lambda: PartsFeed(one, every=LESS_OFTEN)
    if (id_ := number_behind(replays.FEED, feed)) is not None:
        return f"replay {id_}", lambda: PartsFeed(partial(replays.parts, pages, id_))
    if execution is not None:
        return f"execution {execution}", lambda: OutputFeed(pages.container.records(), execution)
    known = (NOW, now.FEED, alerts.FEED, f"{schedules.FEED}ID", f"{replays.FEED}ID")
    feeds = ", ".join(f"feed={name}" for name in known)
    detail = f"there is no such feed; there is {feeds}, and execution=ID"
    raise Problem(HTTPStatus.NOT_FOUND, detail)


def _feed(request: Request) -> str | None:
    """Read which feed is asked for; who names an execution as well asks for none."""
    return None if "execution" in request.query_params else request.query_params.get("feed")


def _execution(request: Request) -> int | None:
    """Read which execution's output is asked for, where no feed is named."""
    text = request.query_params.get("execution", "")
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_ID))
    return int(text) if is_number and "feed" not in request.query_params else None
