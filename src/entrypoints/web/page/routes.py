"""All routes of the page, to be hooked into the application."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ..asking import Asker
from ..problems import Problem
from .pages import refuse, views_of
from .rendering import Assets, Renderer
from .views.failures import Failures, Replays
from .views.now import Alerts, Audit, Now, Work
from .views.runs import Days, Executions
from .views.schedule_edit import ScheduleForms
from .views.schedules import Schedules
from .views.sign_in import SignIn

#: An address with a word after a schedule's name comes before that name.
_VIEWS = (
    Now, Work, ScheduleForms, Schedules, Days, Executions, Alerts, Failures, Replays, Audit, SignIn,
)  # fmt: skip


def refusals() -> Callable[[Request, Problem], Response]:
    return partial(refuse, _renderer())


def routes(asker: Asker) -> Iterator[BaseRoute]:
    yield Route("/ui/static/{rest:path}", _assets().answer, methods=["GET"])
    for views in _VIEWS:
        yield from views_of(views(asker), _renderer())

    async def nowhere(request: Request) -> Response:
        problem = Problem(HTTPStatus.NOT_FOUND, "there is no page at this address")
        return refuse(_renderer(), request, problem)

    yield Route("/ui/{rest:path}", nowhere, methods=["GET"])


@cache
def _assets() -> Assets:
    return Assets.read()


@cache
def _renderer() -> Renderer:
    """Make the one of this process: compiling templates takes longer than answering with them."""
    return Renderer(_assets())
