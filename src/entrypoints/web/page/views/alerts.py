"""*Alerts*: what is wrong now, since when, who was told of it, and where to look."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.views.alerts import AlertView
from cronhare.domain.events.alerts import nobody_judged
from cronhare.domain.events.rules import AlertSeverity, Rule
from cronhare.domain.texts.printable import echo
from cronhare.ports.events import AlertFilter, AlertPlace

from ...problems import Problem
from ..asked import asked_among, asked_text
from ..pages import Pages, status_of
from ..rendering import schedule_path

PATH: Final = "/ui/alerts"
_LISTED: Final = 50

#: The live feed of the page, behind which stands what is asked for.
FEED: Final = "alerts"

#: What can be asked for, besides the next page.
_ASKED: Final = ("schedule", "severity", "cleared")

#: Where to look first, by the rule.
_PLACES: Final[Mapping[str, tuple[str, str]]] = {
    Rule.FAILED: ("/ui/failed", "Failed"),
    Rule.GROWING: ("/ui/failed", "Failed"),
    Rule.CRITICAL: ("/ui/failed", "Failed"),
    Rule.RETRIES: ("/ui/executions?state=retrying", "What waits for a retry"),
    Rule.RETRY_RATE: ("/ui/executions", "Executions"),
    Rule.SCHEDULER: ("/ui/queues#nodes", "Nodes"),
    Rule.UNSENT: ("/ui/queues", "Queues and nodes"),
    Rule.QUEUE: ("/ui/queues", "Queues and nodes"),
    Rule.NODE: ("/ui/queues#nodes", "Nodes"),
}


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""

    def show(request: Request) -> Response:
        asked = {
            "schedule": asked_text(request, "schedule") or "",
            "severity": asked_among(request, "severity", [*AlertSeverity]) or "",
            "cleared": asked_among(request, "cleared", ("true",)) or "",
        }
        after = _place(asked_text(request, "after"))
        which = _filter(asked)
        looked = _look(pages, which, after)
        kept = {name: value for name, value in asked.items() if value}
        following = looked["page"].after and urlencode({**kept, "after": looked["page"].after})
        return pages.render(
            request,
            "alerts.html",
            status=status_of(looked["unknown"]),
            **looked,
            asked=asked,
            severities=[*AlertSeverity],
            # Beyond a place in the list others come in and go out: only its begin is looked at.
            feed=None if after or looked["unknown"] else feed_of(kept),
            first=f"{PATH}?{urlencode(kept)}" if after else None,
            following=following and f"{PATH}?{following}",
        )

    return [pages.get(PATH, show, takes=(*_ASKED, "after"))]


def feed_of(asked: Mapping[str, str]) -> str:
    """Name the feed of the list in which is what is asked for."""
    return f"{FEED}?{urlencode(asked)}" if asked else FEED


def filter_of_feed(feed: str) -> AlertFilter | None:
    """Read which alerts a feed is about; None if it is no such feed.

    >>> filter_of_feed("alerts?severity=bad"), filter_of_feed("alerts") == AlertFilter()
    (None, True)
    >>> filter_of_feed("alerts?severity=critical&severity=warning")
    """
    name, _, text = feed.partition("?")
    try:
        said = parse_qsl(text, errors="strict", max_num_fields=len(_ASKED))
    except ValueError:
        return None
    asked = dict(said)
    is_known = len(asked) == len(said) and asked.keys() <= {*_ASKED}
    is_known = is_known and asked.get("cleared", "true") == "true"
    severity = asked.get("severity")
    if name != FEED or not is_known or severity not in {None, *AlertSeverity}:
        return None
    return _filter(asked)


def _filter(asked: Mapping[str, str]) -> AlertFilter:
    return AlertFilter(
        schedule=asked.get("schedule") or None,
        severity=asked.get("severity") or None,
        cleared=bool(asked.get("cleared")),
    )


def parts(pages: Pages, which: AlertFilter) -> tuple[datetime, Mapping[str, str]]:
    """Render what changes while one looks; called in a thread that may ask the ledger."""
    looked = _look(pages, which, None)
    if looked["unknown"] is not None:
        raise NotFound(looked["unknown"])
    return looked["now"], {"alerts": pages.fragment("alerts/parts.html", **looked)}


def _look(pages: Pages, which: AlertFilter, after: AlertPlace | None) -> dict[str, Any]:
    container, unknown = pages.container, None
    desk = container.alert_desk()
    try:
        page = desk.alerts(which, after=after, limit=_LISTED)
    except NotFound as error:
        page, unknown = desk.none(), str(error)
    return {
        "page": page,
        "unknown": unknown,
        "is_all": which == AlertFilter() and after is None,
        "now": container.queries().now(),
        "is_unjudged": nobody_judged,
        "look_at": look_at,
    }


def _place(text: str | None) -> AlertPlace | None:
    place = None if text is None else AlertPlace.read(text)
    if text is not None and place is None:
        detail = f"after is {echo(text)}; allowed: what the link to a next page has"
        raise Problem(HTTPStatus.BAD_REQUEST, detail)
    return place


def look_at(alert: AlertView) -> tuple[str, str]:
    """Say where to look first, and how that is called."""
    execution = alert.data.get("executionId")
    if type(execution) is int and execution > 0:
        return f"/ui/executions/{execution}", f"Execution {execution}"
    if alert.schedule_name is not None:
        return schedule_path(alert.schedule_name), "Its schedule"
    return _PLACES.get(alert.rule, ("/ui/queues", "Queues and nodes"))
