"""The views, each a module with its `routes`."""

from collections.abc import Callable, Iterable
from typing import Final

from starlette.routing import BaseRoute

from ..pages import Pages
from . import keys, live, load, now, schedule, schedule_edit, schedules

VIEWS: Final[tuple[Callable[[Pages], Iterable[BaseRoute]], ...]] = (
    now.routes,
    schedules.routes,
    schedule_edit.routes,
    schedule.routes,
    load.routes,
    keys.routes,
    live.routes,
)
