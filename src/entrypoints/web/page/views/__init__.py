"""The views, each a module with its `routes`."""

from collections.abc import Callable, Iterable
from typing import Final

from starlette.routing import BaseRoute

from ..pages import Pages
from . import (
    alerts,
    audit,
    executions,
    failed,
    live,
    load,
    now,
    quarantine,
    queues,
    replays,
    schedule,
    schedule_edit,
    schedules,
    sign_in,
    timeline,
)

VIEWS: Final[tuple[Callable[[Pages], Iterable[BaseRoute]], ...]] = (
    now.routes,
    schedules.routes,
    schedule_edit.routes,
    schedule.routes,
    timeline.routes,
    executions.routes,
    alerts.routes,
    failed.routes,
    replays.routes,
    quarantine.routes,
    queues.routes,
    load.routes,
    audit.routes,
    live.routes,
    sign_in.routes,
)
