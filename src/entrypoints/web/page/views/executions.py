"""*Executions*: a list to look through, and each with its story, its output, and its end."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.views.executions import ExecutionView
from cronhare.domain.access import Scope
from cronhare.domain.execution import REPLAYABLE, UNFINISHED, State
from cronhare.ports.records import ExecutionFilter

from ...access import actor_of
from ..asked import (
    IDS,
    asked_among,
    asked_moment_or_none,
    asked_number,
    asked_text,
    number_in_path,
)
from ..pages import Pages, status_of
from ..pictures import strip

PATH: Final = "/ui/executions"

#: Executions on a page.
_LISTED: Final = 50

#: What can be asked for, besides the next page.
_ASKED: Final = ("schedule", "task", "state", "since", "until")

#: What can be asked of their state beside each of them, by the word in the address.
_GROUPS: Final = {
    "unfinished": UNFINISHED,
    "bad": REPLAYABLE,
}


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""
    return [
        pages.get(PATH, partial(_list, pages), takes=(*_ASKED, "before")),
        pages.get(f"{PATH}/{{id}}", partial(_show, pages)),
        pages.post(f"{PATH}/{{id}}/cancel", partial(_cancel, pages), scope=Scope.OPERATE),
    ]


def execution_path(execution_id: int) -> str:
    """Give the address of an execution."""
    return f"{PATH}/{execution_id}"


def _list(pages: Pages, request: Request) -> Response:
    words = [*_GROUPS, *(state.value for state in State)]
    word = asked_among(request, "state", words)
    schedule, task = asked_text(request, "schedule"), asked_text(request, "task")
    since, until = (asked_moment_or_none(request, name) for name in ("since", "until"))
    before = asked_number(request, "before", IDS)
    states = () if word is None else _GROUPS.get(word) or (State(word),)
    which = ExecutionFilter(
        schedule=schedule,
        task=task,
        states=states,
        since=since,
        until=until,
        before=before,
        limit=_LISTED + 1,
    )

    queries, unknown = pages.container.queries(), None
    found: Sequence[ExecutionView] = ()
    try:
        found = queries.executions(which)
    except NotFound as error:
        unknown = str(error)
    asked = {name: request.query_params.get(name, "") for name in _ASKED}
    kept = {name: value for name, value in asked.items() if value}
    more = urlencode({**kept, "before": found[_LISTED - 1].id}) if found[_LISTED:] else None
    return pages.render(
        request,
        "executions.html",
        status=status_of(unknown),
        unknown=unknown,
        found=found[:_LISTED],
        now=queries.now(),
        asked=asked,
        words=words,
        first=f"{PATH}?{urlencode(kept)}" if before is not None else None,
        following=more and f"{PATH}?{more}",
    )


def _show(pages: Pages, request: Request) -> Response:
    id_, container = number_in_path(request, "execution"), pages.container
    stories = container.stories()
    story = stories.of(id_)
    return pages.render(
        request,
        "execution.html",
        story=story,
        one=story.execution,
        now=story.now,
        strip=strip(story),
        outputs=container.queries().output(id_).outputs,
        why=container.explanations().of_execution(id_),
        failure_id=stories.failure_of(story.execution),
        unfinished=UNFINISHED,
    )


def _cancel(pages: Pages, request: Request) -> Response:
    id_ = number_in_path(request, "execution")
    state = pages.container.administrator().cancel(id_, actor=actor_of(request))
    said = f"Execution {id_} is {state}."
    if state is State.RUNNING:
        said = f"Execution {id_} was asked to end: its worker stops it."
    return pages.done(execution_path(id_), said)
