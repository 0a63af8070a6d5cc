"""*Timeline* and *Load*: what ran when, what overlapped, and how many runs begin in each minute."""

import enum
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.application.administration.reading.now import MOST_ATTEMPTS
from cronhare.application.reports.overlaps import LaneBy

from ..asked import A_DAY, asked_choice, asked_moment, whole_day
from ..pages import Pages
from ..pictures import LaneDrawing, drawn, marks

PATH: Final = "/ui/timeline"


class Span(enum.StrEnum):
    """How long a window may be."""

    DAY = "24h"
    QUARTER = "6h"
    HOUR = "1h"


_LASTING: Final = {
    Span.DAY: timedelta(days=1),
    Span.QUARTER: timedelta(hours=6),
    Span.HOUR: timedelta(hours=1),
}


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""
    days, queries = pages.container.days(), pages.container.queries()

    def show(request: Request) -> Response:
        span, by = (
            asked_choice(request, "span", Span.DAY),
            asked_choice(request, "by", LaneBy.SCHEDULE),
        )
        now = queries.now()
        lasting = _LASTING[span]
        newest = whole_day(now) if span is Span.DAY else _next_quarter(now) - lasting
        since = asked_moment(request, "since", newest).replace(microsecond=0)
        view = days.timeline(since, lasting, by=by)

        def address(**other: str) -> str:
            asked = {"span": span.value, "by": by.value, "since": _said(since)} | other
            return f"{PATH}?{urlencode({name: each for name, each in asked.items() if each})}"

        lanes: list[LaneDrawing] = drawn(view)
        return pages.render(
            request,
            "timeline.html",
            now=view.now,
            view=view,
            lanes=lanes,
            marks=marks(view.since, lasting),
            span=span.value,
            spans={
                Span.DAY.value: address(span="24h", since=_said(whole_day(since))),
                Span.QUARTER.value: address(span="6h"),
                Span.HOUR.value: address(span="1h"),
            },
            others={each.value: address(by=each.value) for each in LaneBy},
            earlier=address(since=_said(since - lasting)),
            later=address(since=_said(since + lasting)),
            newest=address(since=""),
            near=address(span="1h", since=_said(view.peak_at - timedelta(minutes=30)))
            if view.peak_at
            else None,
            most_attempts=MOST_ATTEMPTS,
            said_since=_said(since),
            said_until=_said(since + lasting),
        )

    yield pages.get(PATH, show, takes=("span", "by", "since"))
    yield pages.get("/ui/load", partial(_load, pages), takes=("day",))


def _next_quarter(now: datetime) -> datetime:
    """Give the quarter of an hour that ends next: whoever looks meanwhile sees the same window."""
    begun = now.replace(minute=now.minute // 15 * 15, second=0, microsecond=0)
    return begun + timedelta(minutes=15)


def _said(moment: object) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _load(pages: Pages, request: Request) -> Response:
    now = pages.container.queries().now()
    today = whole_day(now)
    day = whole_day(asked_moment(request, "day", today))
    return pages.render(
        request,
        "load.html",
        now=now,
        load=pages.container.days().load(day),
        day=day,
        today=today,
        before=day - A_DAY,
        after=day + A_DAY,
    )
