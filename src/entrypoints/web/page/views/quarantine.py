"""*Quarantine*: poison pills and what could not be read; released or discarded one by one."""

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.application.administration.reading.lookup import NotFound

from ..asked import IDS, asked_number
from ..pages import Pages, status_of
from .failed import filter_of

PATH: Final = "/ui/quarantine"
_LISTED: Final = 50


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""

    async def show(request: Request) -> Response:
        schedule = request.query_params.get("schedule", "")
        which = filter_of({"schedule": schedule})
        before = asked_number(request, "before", IDS)

        def look() -> dict[str, Any]:
            queries = pages.container.queries()
            try:
                view = queries.quarantine(which, before=before, limit=_LISTED + 1)
            except NotFound as error:
                return {"view": None, "unknown": str(error), "now": queries.now()}
            return {"view": view, "unknown": None, "now": queries.now()}

        looked = await pages.ask(look)
        found = [] if looked["view"] is None else [*looked["view"].quarantined]
        kept = {"schedule": schedule} if schedule else {}
        more = urlencode({**kept, "before": found[_LISTED - 1].id}) if found[_LISTED:] else None
        return pages.render(
            request,
            "quarantine.html",
            status=status_of(looked["unknown"]),
            **looked,
            found=found[:_LISTED],
            schedule=schedule,
            first=f"{PATH}?{urlencode(kept)}" if before is not None else None,
            following=more and f"{PATH}?{more}",
        )

    return [pages.get(PATH, show, takes=("schedule", "before"))]
