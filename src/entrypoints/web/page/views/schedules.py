"""*Schedules*: found by name or description, with their last runs; and switched, run or resumed."""

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlencode

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.application.administration.reading.now import SPARKS
from cronhare.ports.schedules import MOST_COUNTED, ScheduleFilter

from ..asked import asked_among
from ..bars import SPARK_HEIGHT, SPARK_WIDTH, sparkline
from ..pages import Pages

PATH: Final = "/ui/schedules"

#: Schedules on a page, and letters of a search.
_LISTED: Final = 50
_LONGEST_SEARCH: Final = 200

#: What can be asked of their state, by the word in the address.
_STATES: Final = {
    "": ("All", ScheduleFilter()),
    "enabled": ("Enabled", ScheduleFilter(enabled=True)),
    "disabled": ("Disabled", ScheduleFilter(enabled=False)),
    "paused": ("Paused", ScheduleFilter(paused=True)),
}


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""

    async def show(request: Request) -> Response:
        search = request.query_params.get("search", "").strip()[:_LONGEST_SEARCH]
        state = asked_among(request, "state", [*filter(None, _STATES)]) or ""
        _, asked = _STATES[state]
        which = attrs.evolve(asked, search=search or None)
        after = request.query_params.get("after")

        def look() -> dict[str, Any]:
            lists, overview = pages.container.schedule_pages(), pages.container.overview()
            page = lists.page(which, after=after or None, limit=_LISTED)
            runs = overview.sparks([each.id for each in page.schedules])
            return {
                "page": page,
                "count": lists.count(which, first=None if after else page),
                "sparks": {id_: sparkline(found, most=SPARKS) for id_, found in runs.items()},
                "runs": runs,
                "now": pages.container.queries().now(),
            }

        kept = {"search": search, "state": state}
        asked_again = urlencode({name: value for name, value in kept.items() if value})
        return pages.render(
            request,
            "schedules.html",
            **await pages.ask(look),
            search=search,
            state=state,
            states={word: title for word, (title, _) in _STATES.items()},
            most_counted=MOST_COUNTED,
            spark=(SPARKS * SPARK_WIDTH, SPARK_HEIGHT),
            after=after,
            query=asked_again,
        )

    return [pages.get(PATH, show, takes=("search", "state", "after"))]
