"""Replays of many failures: ordered with a pace and a canary, watched, stopped and resumed."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.application.administration.views.failures import ReplayView
from cronhare.domain.access import Scope
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.lifecycle.orders import (
    DEFAULT_AT_ONCE,
    DEFAULT_RATE,
    ReplayOrder,
)
from cronhare.domain.reading import Fault, Invalid

from ...access import actor_of
from ...problems import Problem
from ..asked import number_in_path
from ..pages import Pages

PATH: Final = "/ui/replays"

#: How the live feed of a replay begins; its number follows.
FEED: Final = "replay-"

#: Replays in the list, the newest.
_LISTED: Final = 100

#: What the form of a replay says, besides which failures it is of.
ORDERED: Final = ("rate", "canary", "stop_at", "attempts", "key", "at_once")


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""

    def show_all(request: Request) -> Response:
        now = pages.container.queries().now()
        found = pages.container.replays().list(limit=_LISTED)
        return pages.render(request, "replays.html", found=found, now=now)

    def show(request: Request) -> Response:
        id_ = number_in_path(request, "replay")
        return pages.render(request, "replay.html", **_look(pages, id_), feed=f"{FEED}{id_}")

    def stop(request: Request) -> Response:
        id_, actor = number_in_path(request, "replay"), actor_of(request)
        return told(pages.container.replays().stop(id_, author=actor.name, actor=actor))

    def resume(request: Request) -> Response:
        id_ = number_in_path(request, "replay")
        return told(pages.container.replays().resume(id_, actor=actor_of(request)))

    def told(one: ReplayView) -> Response:
        return pages.done(replay_path(one.id), f"Replay {one.id} is {one.state}.")

    return [
        pages.get(PATH, show_all),
        pages.get(f"{PATH}/{{id}}", show),
        pages.post(f"{PATH}/{{id}}/stop", stop, scope=Scope.OPERATE),
        pages.post(f"{PATH}/{{id}}/resume", resume, scope=Scope.OPERATE),
    ]


def parts(pages: Pages, id_: int) -> tuple[datetime, Mapping[str, str]]:
    """Render what changes while one looks; called in a thread that may ask the ledger."""
    looked = _look(pages, id_)
    return looked["now"], {
        part: pages.fragment(f"replays/{part}.html", **looked) for part in ("head", "progress")
    }


def _look(pages: Pages, id_: int) -> dict[str, Any]:
    now = pages.container.queries().now()
    return {"one": pages.container.replays().show(id_), "now": now}


def replay_path(id_: int) -> str:
    """Give the address of a replay."""
    return f"{PATH}/{id_}"


def order_of(form: Mapping[str, str], *, which: FailureFilter, author: str) -> ReplayOrder:
    """Read the order of a replay.

    Raises:
        Problem: with all faults.
    """
    faults: list[Fault] = []
    rate = _number(form, "rate", faults, float)
    stop_at = _number(form, "stop_at", faults, float)
    canary, at_once, attempts = (
        _number(form, name, faults, int) for name in ("canary", "at_once", "attempts")
    )
    try:
        order = ReplayOrder(
            which=which,
            rate=DEFAULT_RATE if rate is None else rate,
            canary=canary or 0,
            stop_at=None if stop_at is None else stop_at / 100,
            key=form.get("key") or None,
            at_once=DEFAULT_AT_ONCE if at_once is None else at_once,
            attempts=attempts,
            author=author,
        )
    except Invalid as error:
        faults += error.faults
    if faults:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "the replay has faults", faults=faults)
    return order


def _number(
    form: Mapping[str, str], name: str, faults: list[Fault], kind: Callable[[str], Any]
) -> Any:  # noqa: ANN401 - of that kind
    text = form.get(name, "").strip()
    if not text:
        return None
    try:
        return kind(text[:30])
    except ValueError:
        faults.append(Fault(name, "is to be a number"))
        return None
