"""*Now*, the keys, and *Queues and nodes*: what runs, where work waits, and who takes it."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.application.administration.views.work import NodeView
from cronhare.domain.access import Scope

from ...access import actor_of
from ..asked import form_of
from ..live import NOW
from ..pages import Pages
from ..pictures import minutes_chart


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""

    def show(request: Request) -> Response:
        view = pages.container.overview().now()
        chart = minutes_chart(view.coming_minutes)
        return pages.render(request, "now.html", now=view.now, view=view, chart=chart, feed=NOW)

    def keys(request: Request) -> Response:
        return pages.render(request, "keys.html")

    return [pages.get("/", show), pages.get("/ui/keys", keys), *_routes_of_queues(pages)]


PATH: Final = "/ui/queues"

#: The live feed of the page.
FEED: Final = "queues"


def _routes_of_queues(pages: Pages) -> Iterable[BaseRoute]:
    def show(request: Request) -> Response:
        return pages.render(request, "queues.html", **_look(pages), feed=FEED)

    def drain(request: Request) -> Response:
        return told(request, pages.container.node_desk().drain)

    def undrain(request: Request) -> Response:
        return told(request, pages.container.node_desk().undrain)

    def told(request: Request, change: Callable[..., NodeView]) -> Response:
        node = change(form_of(request).get("node", ""), actor=actor_of(request))
        heard = "It hears of it with its next report, within 3 s."
        return pages.done(PATH, f"{node.name} is {node.state}. {heard}")

    def reset(request: Request) -> Response:
        task = form_of(request).get("task", "")
        was = pages.container.limit_desk().reset(task, actor=actor_of(request))
        return pages.done(PATH, f"The circuit breaker of {was.called} counts anew.")

    return [
        pages.get(PATH, show),
        pages.post("/ui/breakers/reset", reset, scope=Scope.OPERATE, takes=("task",)),
        pages.post("/ui/nodes/drain", drain, scope=Scope.OPERATE, takes=("node",)),
        pages.post("/ui/nodes/undrain", undrain, scope=Scope.OPERATE, takes=("node",)),
    ]


def parts(pages: Pages) -> tuple[datetime, Mapping[str, str]]:
    """Render what changes while one looks; called in a thread that may ask the ledger."""
    looked = _look(pages)
    return looked["now"], {"queues": pages.fragment("queues/parts.html", **looked)}


def _look(pages: Pages) -> dict[str, Any]:
    queries, limits = pages.container.queries(), pages.container.limit_views()
    return {
        "queues": queries.queues(),
        "nodes": queries.nodes(),
        "budgets": limits.budgets(),
        "breakers": limits.breakers(),
        "now": queries.now(),
    }
