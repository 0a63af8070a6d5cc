"""*Audit*: who changed what, from what, to what."""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ..asked import IDS, asked_moment_or_none, asked_number, asked_text
from ..pages import Pages

PATH: Final = "/ui/audit"
_LISTED: Final = 50


@attrs.frozen(kw_only=True)
class Difference:
    """A member that a change has given another value; *name* is None where there are no members."""

    name: str | None
    before: Any
    after: Any


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""

    def show(request: Request) -> Response:
        actor, target = asked_text(request, "actor"), asked_text(request, "target")
        since = asked_moment_or_none(request, "since")
        before = asked_number(request, "before", IDS)

        found = pages.container.audit().entries(
            since=since, actor=actor, target=target, before=before, limit=_LISTED + 1
        )
        asked = {name: request.query_params.get(name, "") for name in ("actor", "target", "since")}
        kept = {name: value for name, value in asked.items() if value}
        more = urlencode({**kept, "before": found[_LISTED - 1].id}) if found[_LISTED:] else None
        return pages.render(
            request,
            "audit.html",
            now=pages.container.queries().now(),
            found=[(each, differences(each.before, each.after)) for each in found[:_LISTED]],
            asked=asked,
            first=f"{PATH}?{urlencode(kept)}" if before is not None else None,
            following=more and f"{PATH}?{more}",
        )

    return [pages.get(PATH, show, takes=("actor", "target", "since", "before"))]


def differences(before: Any, after: Any) -> list[Difference]:  # noqa: ANN401 - JSON values
    """Name the members of two values that differ; all of one that stands alone.

    >>> differences({"a": 1, "b": 2}, {"a": 1, "b": 3})
    [Difference(name='b', before=2, after=3)]
    """
    if before is None and after is None:
        return []
    ours, theirs = _members(before), _members(after)
    if ours is None or theirs is None:
        return [Difference(name=None, before=before, after=after)]
    names = dict.fromkeys([*ours, *theirs])
    return [
        Difference(name=name, before=ours.get(name), after=theirs.get(name))
        for name in names
        if name not in ours or name not in theirs or ours[name] != theirs[name]
    ]


def _members(value: Any) -> Mapping[str, Any] | None:  # noqa: ANN401 - a JSON value
    if value is None:
        return {}
    return value if isinstance(value, Mapping) else None
