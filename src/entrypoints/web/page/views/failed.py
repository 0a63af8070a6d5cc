"""*Failed* and *Quarantine*: what waits for a person; replayed with care, or discarded."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.domain.access import Scope
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.reading import Fault, Invalid
from cronhare.domain.retries.outcome import ErrorClass
from cronhare.domain.texts.words import counted
from cronhare.ports.statistics import By

from ...access import actor_of
from ...problems import Problem
from ..asked import IDS, MOMENTS, asked_number, form_of, number_in_path, read_moment
from ..pages import Pages, status_of
from .replays import ORDERED, order_of, replay_path

PATH: Final = "/ui/failed"
QUARANTINE: Final = "/ui/quarantine"

#: Failures on a page, groups of each kind beside it, and replays that are told of.
_LISTED: Final = 50
_GROUPS: Final = 8
_REPLAYS: Final = 5

#: What may be asked of failures, by the words in the address.
_ASKED: Final = ("schedule", "task", "reason", "code", "queue", "class", "kind", "since", "until")

#: What a person says of failures that are discarded, in letters.
_LONGEST_NOTE: Final = 500


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""
    return [
        pages.get(PATH, partial(_list, pages), takes=(*_ASKED, "before")),
        pages.post(
            f"{PATH}/replay",
            partial(_replay_many, pages),
            scope=Scope.OPERATE,
            takes=(*_ASKED, *ORDERED),
        ),
        pages.post(
            f"{PATH}/discard",
            partial(_discard_many, pages),
            scope=Scope.OPERATE,
            takes=(*_ASKED, "note"),
        ),
        pages.get(f"{PATH}/{{id}}", partial(_show, pages)),
        pages.post(f"{PATH}/{{id}}/replay", partial(_replay, pages), scope=Scope.OPERATE),
        pages.post(
            f"{PATH}/{{id}}/discard", partial(_discard, pages), scope=Scope.OPERATE, takes=("note",)
        ),
        pages.get(QUARANTINE, partial(_quarantine, pages), takes=("schedule", "before")),
    ]


def _list(pages: Pages, request: Request) -> Response:
    asked = {name: request.query_params.get(name, "") for name in _ASKED}
    which = filter_of(asked)
    before = asked_number(request, "before", IDS)

    queries, replays = pages.container.queries(), pages.container.replays()
    now, statistics = queries.now(), pages.container.statistics()
    looked: dict[str, Any]
    try:
        looked = {
            "found": queries.failures(which, before=before, limit=_LISTED + 1),
            "count": replays.count(which),
            "reasons": statistics.failures(which, by=[By.REASON], limit=_GROUPS),
            "schedules": statistics.failures(which, by=[By.SCHEDULE], limit=_GROUPS),
            "unknown": None,
        }
    except NotFound as error:
        looked = {"found": [], "count": 0, "unknown": str(error)}
    found = looked["found"]
    kept = {name: value for name, value in asked.items() if value}
    more = urlencode({**kept, "before": found[_LISTED - 1].id}) if found[_LISTED:] else None
    return pages.render(
        request,
        "failed.html",
        status=status_of(looked["unknown"]),
        **looked | {"found": found[:_LISTED]},
        now=now,
        replays=replays.list(limit=_REPLAYS),
        asked=asked,
        kept=kept,
        classes=[each.value for each in ErrorClass],
        first=f"{PATH}?{urlencode(kept)}" if before is not None else None,
        following=more and f"{PATH}?{more}",
        narrowed=lambda **more: f"{PATH}?{urlencode({**kept, **more})}",
    )


def _show(pages: Pages, request: Request) -> Response:
    id_, queries = number_in_path(request, "failure"), pages.container.queries()
    found = queries.failure(id_)
    return pages.render(request, "failure.html", found=found, one=found.failure, now=queries.now())


def _replay(pages: Pages, request: Request) -> Response:
    id_ = number_in_path(request, "failure")
    done = pages.container.administrator().replay([id_], actor=actor_of(request))
    if done.refused:
        raise Problem(HTTPStatus.CONFLICT, f"failure {id_} cannot run again: {done.refused[id_]}")
    if not done.executions:
        return pages.done(f"{PATH}/{id_}", f"Failure {id_} was resolved before.")
    [execution_id] = done.executions
    return pages.done(f"/ui/executions/{execution_id}", f"Execution {execution_id} runs again.")


def _discard(pages: Pages, request: Request) -> Response:
    id_, actor = number_in_path(request, "failure"), actor_of(request)
    note = _note(form_of(request))
    done = pages.container.administrator().discard([id_], note=note, actor=actor)
    said = "is discarded" if done.failures else "was resolved before"
    return pages.done(f"{PATH}/{id_}", f"Failure {id_} {said}.")


def _replay_many(pages: Pages, request: Request) -> Response:
    form, actor = form_of(request), actor_of(request)
    order = order_of(form, which=filter_of(form), author=actor.name)

    ordered = pages.container.replays().order(order, actor=actor)
    if ordered.replay is None:
        return pages.done(PATH, "No failure is like that any more: nothing was begun.")
    many = counted(ordered.failures, "failure")
    said = f"Replay {ordered.replay.id} has begun, of {many}."
    return pages.done(replay_path(ordered.replay.id), said)


def _discard_many(pages: Pages, request: Request) -> Response:
    form, now = form_of(request), pages.container.ledger_time().now()
    # What failed while the form was filled in is not meant by whoever has not seen it.
    which = filter_of(form)
    which = attrs.evolve(which, until=min(which.until or now, now))
    done = pages.container.administrator().discard_all(
        which, note=_note(form), actor=actor_of(request)
    )
    return pages.done(PATH, f"{done.failures:,} failures are discarded.")


def filter_of(asked: Mapping[str, str]) -> FailureFilter:
    """Read which failures are asked for, of an address or of a form.

    Raises:
        Problem: with all faults.
    """
    faults: list[Fault] = []
    error_class = _word(asked, "class", [each.value for each in ErrorClass], faults)
    kind = _word(asked, "kind", [State.FAILED.value, State.QUARANTINED.value], faults)
    try:
        which = FailureFilter(
            schedule=asked.get("schedule") or None,
            task=asked.get("task") or None,
            reason=asked.get("reason") or None,
            code=asked.get("code") or None,
            queue=asked.get("queue") or None,
            since=_moment(asked, "since", faults),
            until=_moment(asked, "until", faults),
            error_class=None if error_class is None else ErrorClass(error_class),
            kind=None if kind is None else State(kind),
        )
    except Invalid as error:
        faults += error.faults
    if faults:
        raise Problem(HTTPStatus.BAD_REQUEST, "what is asked for has faults", faults=faults)
    return which


def _word(asked: Mapping[str, str], name: str, words: list[str], faults: list[Fault]) -> str | None:
    text = asked.get(name) or None
    if text is None or text in words:
        return text
    faults.append(Fault(name, f"allowed: {', '.join(words)}"))
    return None


def _moment(asked: Mapping[str, str], name: str, faults: list[Fault]) -> datetime | None:
    text = asked.get(name)
    moment = read_moment(text) if text else None
    if text and moment is None:
        faults.append(Fault(name, MOMENTS))
    return moment


def _note(form: Mapping[str, str]) -> str:
    note = form.get("note", "").strip()
    if len(note) > _LONGEST_NOTE:
        text = f"has {len(note):,} letters, {_LONGEST_NOTE} are allowed"
        faults = [Fault("note", text)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "the note has faults", faults=faults)
    return note


def _quarantine(pages: Pages, request: Request) -> Response:
    schedule = request.query_params.get("schedule", "")
    which = filter_of({"schedule": schedule})
    before = asked_number(request, "before", IDS)

    queries, view, unknown = pages.container.queries(), None, None
    try:
        view = queries.quarantine(which, before=before, limit=_LISTED + 1)
    except NotFound as error:
        unknown = str(error)
    found = () if view is None else view.quarantined
    kept = {"schedule": schedule} if schedule else {}
    more = urlencode({**kept, "before": found[_LISTED - 1].id}) if found[_LISTED:] else None
    return pages.render(
        request,
        "quarantine.html",
        status=status_of(unknown),
        view=view,
        unknown=unknown,
        now=queries.now(),
        found=found[:_LISTED],
        schedule=schedule,
        first=f"{QUARANTINE}?{urlencode(kept)}" if before is not None else None,
        following=more and f"{QUARANTINE}?{more}",
    )
