"""The ways between the views."""

from typing import Final

import attrs


@attrs.frozen(kw_only=True)
class Way:
    """A view in the navigation; *key* after a `g` leads there."""

    title: str
    path: str
    key: str


WAYS: Final = (
    Way(title="Now", path="/", key="n"),
    Way(title="Schedules", path="/ui/schedules", key="s"),
    Way(title="Timeline", path="/ui/timeline", key="t"),
    Way(title="Alerts", path="/ui/alerts", key="e"),
    Way(title="Failed", path="/ui/failed", key="f"),
    Way(title="Quarantine", path="/ui/quarantine", key="q"),
    Way(title="Queues and nodes", path="/ui/queues", key="u"),
    Way(title="Load", path="/ui/load", key="l"),
    Way(title="Audit", path="/ui/audit", key="a"),
)

#: Views that are reached from others, and the one that they belong to.
_BELOW: Final = {"/ui/executions": "/ui/timeline", "/ui/replays": "/ui/failed"}


def current(path: str) -> str | None:
    """Give the path of the way on which a page lies.

    >>> current("/ui/schedules/nightly")
    '/ui/schedules'
    """
    for way in WAYS:
        if path == way.path or (way.path != "/" and path.startswith(f"{way.path}/")):
            return way.path
    return next((way for below, way in _BELOW.items() if path.startswith(below)), None)
