"""The application: its parts side by side, and the guard before them all."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Final

from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from ..container import Container
from .access import Gate
from .api import resources as api
from .api.openapi import Api
from .asking import Asker
from .guard import Guard
from .page.routes import refusals
from .page.routes import routes as page_routes
from .probes import routes as probe_routes

#: What there is to be asked for, each part with the paths of its own.
PARTS: Final[tuple[Callable[[Asker], Iterable[BaseRoute]], ...]] = (
    api.routes,  # a line for each
    page_routes,
    probe_routes,
)


def make_application(
    container: Container, executor: ThreadPoolExecutor, ending: asyncio.Event
) -> ASGIApp:
    """Make the application of a process: see `Asker`."""
    asker = Asker(container, executor, ending)
    app = Api(
        title="cronhare",
        version=version("cronhare"),
        redirect_slashes=False,
    )
    app.state.in_thread = asker.in_thread  # see `Deferred`
    for routes in PARTS:
        app.router.routes.extend(routes(asker))
    app.answer_problems()
    return Guard(app, Gate(asker), refuse=refusals(asker))
