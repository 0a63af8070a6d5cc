"""*Schedule*: its calendar, how long it takes, its runs; and what can be done with it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.application.administration.file_change import change_by_file
from cronhare.domain.access import Actor, Scope
from cronhare.domain.texts.durations import DurationInvalid, parse_duration
from cronhare.domain.texts.naming import called
from cronhare.ports.overview import Run

from ...access import actor_of
from ..addresses import schedule_path
from ..asked import asked_moment_or_none
from ..bars import DURATION_HEIGHT, DURATION_WIDTH, duration_bars
from ..forms import read_form
from ..pages import Pages

_NAME: Final = "/ui/schedules/{name:path}"

#: Runs in the list, in the picture of durations, and ahead.
_LISTED: Final = 40
_DRAWN: Final = 120
_AHEAD: Final = 5


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes; those with a word after the name come before the one without."""
    return [
        pages.get(f"{_NAME}/explain", _explain(pages), takes=("at",)),
        pages.post(f"{_NAME}/run", _run(pages), scope=Scope.OPERATE),
        pages.post(f"{_NAME}/pause", _pause(pages), scope=Scope.OPERATE),
        pages.post(f"{_NAME}/resume", _resume(pages), scope=Scope.OPERATE),
        pages.post(f"{_NAME}/enable", _switch(pages, on=True), scope=Scope.ADMIN),
        pages.post(f"{_NAME}/disable", _switch(pages, on=False), scope=Scope.ADMIN),
        pages.get(_NAME, _show(pages), takes=("since", "until")),
    ]


def _show(pages: Pages) -> Any:  # noqa: ANN401 - a handler
    async def show(request: Request) -> Response:
        return await _page(pages, request)

    return show


async def _page(
    pages: Pages,
    request: Request,
    *,
    pause: Mapping[str, str] | None = None,
    fault: str | None = None,
) -> Response:
    """Show a schedule; with a *fault*, the form of its *pause* as it was sent."""
    name = request.path_params["name"]
    since, until = (asked_moment_or_none(request, word) for word in ("since", "until"))

    def look() -> dict[str, Any]:
        container = pages.container
        queries = container.queries()
        view, history = queries.schedule(name), container.run_history().of(name)
        upcoming = queries.upcoming(view.name, count=_AHEAD)
        return {
            "one": view,
            "task": called(view.task, name=view.task_name, topic=view.topic),
            "upcoming": upcoming,
            "next_at": view.next_due_at or next((due.utc for due in upcoming if due.runs), None),
            "history": history,
            "latest": _latest(history.runs, since, until),
            "since": since,
            "until": until,
            "bars": duration_bars(history.runs[-_DRAWN:], most=_DRAWN),
            "change": change_by_file(container.schedules(), name, container.jobs_file()),
            "now": queries.now(),
        }

    return pages.render(
        request,
        "schedule.html",
        status=HTTPStatus.OK if fault is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        **await pages.ask(look),
        picture=(_DRAWN * DURATION_WIDTH, DURATION_HEIGHT),
        asked_pause=pause or {},
        pause_fault=fault,
    )


def _latest(runs: Sequence[Run], since: datetime | None, until: datetime | None) -> Sequence[Run]:
    """Give the newest runs, newest first; of a cell of the calendar all of them."""
    if since is None and until is None:
        return runs[: -_LISTED - 1 : -1]
    return [
        run
        for run in reversed(runs)
        if (since is None or run.due_at >= since) and (until is None or run.due_at < until)
    ]


def _explain(pages: Pages) -> Any:  # noqa: ANN401 - a handler
    async def explain(request: Request) -> Response:
        name = request.path_params["name"]
        at = asked_moment_or_none(request, "at")
        explanations, queries = pages.container.explanations(), pages.container.queries()
        found = await pages.ask(lambda: explanations.of_instant(name, at))
        now = await pages.ask(queries.now)
        return pages.render(request, "explain.html", found=found, now=now)

    return explain


def _run(pages: Pages) -> Any:  # noqa: ANN401 - a handler
    async def run(request: Request) -> Response:
        name, form, actor = request.path_params["name"], await read_form(request), actor_of(request)
        params = form.get("params", "").strip() or None

        def begin() -> int:
            container = pages.container
            now = container.ledger_time().now()
            administrator = container.administrator()
            return administrator.run_now(name, params=params, now=now, actor=actor).id

        id_ = await pages.ask(begin)
        return pages.done(f"/ui/executions/{id_}", f"Execution {id_} of {name} has been asked for.")

    return run


def _pause(pages: Pages) -> Any:  # noqa: ANN401 - a handler
    async def pause(request: Request) -> Response:
        name, form, actor = request.path_params["name"], await read_form(request), actor_of(request)
        reason, length = form.get("reason", "").strip() or None, form.get("for", "").strip()
        try:
            lasts = parse_duration(length) if length else None
        except DurationInvalid as error:
            return await _page(pages, request, pause=form, fault=str(error))

        def begin() -> None:
            now = pages.container.ledger_time().now()
            pages.container.administrator().pause(
                {name: None if lasts is None else now + lasts},
                reason=reason,
                by=actor.name,
                now=now,
                actor=actor,
            )

        await pages.ask(begin)
        return pages.done(
            schedule_path(name), f"{name} is paused: what is due meanwhile is skipped."
        )

    return pause


def _resume(pages: Pages) -> Any:  # noqa: ANN401 - a handler
    def resume(name: str, actor: Actor, now: datetime) -> str:
        found = pages.container.administrator().resume([name], now=now, actor=actor)
        _, was_on = found[name]
        return f"{name} goes on." if was_on else f"{name} was not paused."

    return _changing(pages, resume)


def _switch(pages: Pages, *, on: bool) -> Any:  # noqa: ANN401 - a handler
    def switch(name: str, actor: Actor, now: datetime) -> str:
        [done] = pages.container.administrator().switch([name], on=on, now=now, actor=actor)
        said = f"{name} is {'enabled' if on else 'disabled'}."
        if done.source is not None:
            said += f" The next apply of {done.source} has the last word."
        return said

    return _changing(pages, switch)


def _changing(pages: Pages, change: Callable[[str, Actor, datetime], str]) -> Any:  # noqa: ANN401
    async def answer(request: Request) -> Response:
        name, actor = request.path_params["name"], actor_of(request)
        await read_form(request)
        said = await pages.ask(lambda: change(name, actor, pages.container.ledger_time().now()))
        return pages.done(schedule_path(name), said)

    return answer
