"""*Load*: how many runs begin in each minute of a day, and what would spread them."""

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ..asked import A_DAY, asked_moment, whole_day
from ..pages import Pages


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""
    days, queries = pages.container.days(), pages.container.queries()

    async def show(request: Request) -> Response:
        now = await pages.ask(queries.now)
        today = whole_day(now)
        day = whole_day(asked_moment(request, "day", today))
        load = await pages.ask(lambda: days.load(day))
        return pages.render(
            request,
            "load.html",
            now=now,
            load=load,
            day=day,
            today=today,
            before=day - A_DAY,
            after=day + A_DAY,
        )

    return [pages.get("/ui/load", show, takes=("day",))]
