"""*Now*, the keys, and *Queues and nodes*: what runs, where work waits, and who takes it."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.application.administration.views.work import NodeView
from cronhare.domain.access import Actor, Scope

from ...access import actor_of
from ..asked import form_of
from ..live import NOW
from ..pages import Pages
from ..pictures import minutes_chart


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""

    async def show(request: Request) -> Response:
        view = await pages.ask(pages.container.overview().now)
        chart = minutes_chart(view.coming_minutes)
        return pages.render(request, "now.html", now=view.now, view=view, chart=chart, feed=NOW)

    async def keys(request: Request) -> Response:
        return pages.render(request, "keys.html")

    return [pages.get("/", show), pages.get("/ui/keys", keys), *_routes_of_queues(pages)]


PATH: Final = "/ui/queues"

#: The live feed of the page.
FEED: Final = "queues"


def _routes_of_queues(pages: Pages) -> Iterable[BaseRoute]:
    async def show(request: Request) -> Response:
        looked = await pages.ask(partial(_look, pages))
        return pages.render(request, "queues.html", **looked, feed=FEED)

    def drain(name: str, actor: Actor, now: datetime) -> NodeView:
        return pages.container.node_desk().drain(name, actor=actor, now=now)

    def undrain(name: str, actor: Actor, now: datetime) -> NodeView:
        return pages.container.node_desk().undrain(name, actor=actor, now=now)

    async def reset(request: Request) -> Response:
        form, actor = form_of(request), actor_of(request)
        desk, task = pages.container.limit_desk(), form.get("task", "")
        was = await pages.ask(lambda: desk.reset(task, actor=actor))
        return pages.done(PATH, f"The circuit breaker of {was.called} counts anew.")

    return [
        pages.get(PATH, show),
        pages.post("/ui/breakers/reset", reset, scope=Scope.OPERATE, takes=("task",)),
        pages.post(
            "/ui/nodes/drain", _changing(pages, drain), scope=Scope.OPERATE, takes=("node",)
        ),
        pages.post(
            "/ui/nodes/undrain", _changing(pages, undrain), scope=Scope.OPERATE, takes=("node",)
        ),
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


def _changing(pages: Pages, change: Callable[[str, Actor, datetime], NodeView]) -> Any:  # noqa: ANN401
    async def answer(request: Request) -> Response:
        form, actor = form_of(request), actor_of(request)
        name = form.get("node", "")
        node = await pages.ask(lambda: change(name, actor, pages.container.ledger_time().now()))
        heard = "It hears of it with its next report, within 3 s."
        return pages.done(PATH, f"{node.name} is {node.state}. {heard}")

    return answer
