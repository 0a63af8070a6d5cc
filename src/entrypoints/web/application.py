"""The application: its parts side by side, and the guard before them all."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from ..container import Container
from .access import Gate
from .api import resources as api
from .api.openapi import describe
from .asking import Asker
from .guard import Guard
from .page.routes import refusals
from .page.routes import routes as page_routes
from .probes import routes as probe_routes
from .problems import answer_problems


def make_application(
    container: Container, executor: ThreadPoolExecutor, ending: asyncio.Event
) -> ASGIApp:
    """Make the application of a process: see `Asker`."""
    asker = Asker(container, executor, ending)
    operations = [*api.operations(asker)]
    described: list[bytes] = []

    async def describes(_: Request) -> Response:
        if not described:  # made once, when it is asked for
            of_all = describe(operations, title="cronhare", version=version("cronhare"))
            described.append(msgspec.json.encode(of_all))
        return Response(described[0], media_type="application/json")

    routes: list[BaseRoute] = [Route("/openapi.json", describes), *operations]
    app = Starlette(routes=[*routes, *page_routes(asker), *probe_routes(asker)])
    app.router.redirect_slashes = False
    app.state.asker = asker
    answer_problems(app)
    return Guard(app, Gate(asker), refuse=refusals())
