"""*Schedule*: its calendar, how long it takes, its runs; and what can be done with it."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.domain.access import Actor, Scope
from cronhare.domain.texts.moments import DurationInvalid, parse_duration

from ...access import actor_of
from ..addresses import schedule_path
from ..asked import asked_moment_or_none
from ..forms import form_of
from ..pages import Pages
from ..schedule_parts import FEED, look_at_schedule

_NAME: Final = "/ui/schedules/{name:path}"


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes; those with a word after the name come before the one without."""
    return [
        pages.get(f"{_NAME}/explain", _explain(pages), takes=("at",)),
        pages.post(f"{_NAME}/run", _run(pages), scope=Scope.OPERATE, takes=("params",)),
        pages.post(f"{_NAME}/pause", _pause(pages), scope=Scope.OPERATE, takes=("reason", "for")),
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

    looked = await pages.ask(lambda: look_at_schedule(pages, name, since=since, until=until))
    return pages.render(
        request,
        "schedule.html",
        status=HTTPStatus.OK if fault is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        **looked,
        feed=f"{FEED}{looked['one'].id}",
        asked_pause=pause or {},
        pause_fault=fault,
    )


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
        name, form, actor = request.path_params["name"], form_of(request), actor_of(request)
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
        name, form, actor = request.path_params["name"], form_of(request), actor_of(request)
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
        said = await pages.ask(lambda: change(name, actor, pages.container.ledger_time().now()))
        return pages.done(schedule_path(name), said)

    return answer
