"""*Schedules*, and each of them: its calendar, how long it takes, its runs, and changes of it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from cronhare.application.administration.jobs_file.applying import change_by_file
from cronhare.application.administration.reading.now import SPARKS
from cronhare.application.administration.views.schedules import ScheduleView
from cronhare.domain.access import Scope
from cronhare.domain.texts.moments import DurationInvalid, parse_duration
from cronhare.domain.texts.words import called
from cronhare.ports.records import Run
from cronhare.ports.schedules import MOST_COUNTED, ScheduleFilter

from ...access import actor_of
from ..asked import asked_among, asked_moment_or_none, form_of
from ..pages import Pages
from ..pictures import (
    DURATION_HEIGHT,
    DURATION_WIDTH,
    SPARK_HEIGHT,
    SPARK_WIDTH,
    duration_bars,
    sparkline,
)
from ..rendering import schedule_path

#: How the live feed of a schedule begins; its id follows.
FEED: Final = "schedule-"

#: Its parts, each a template of its own.
_PARTS: Final[Mapping[str, str]] = {
    "calendar": "schedules/calendar.html",
    **{
        part: f"schedule/{part}.html"
        for part in ("standing", "state", "ahead", "durations", "runs", "settings")
    },
}

#: Runs in the list, in the picture of durations, and ahead.
_RUNS_LISTED: Final = 40
_DRAWN: Final = 120
_AHEAD: Final = 5


def look_at_schedule(
    pages: Pages, name: str, *, since: datetime | None = None, until: datetime | None = None
) -> dict[str, Any]:
    """Ask for all that its page shows; with a time, its runs of that time are listed."""
    container = pages.container
    queries = container.queries()
    view, history = queries.schedule(name), container.run_history().of(name)
    upcoming = queries.upcoming(view.name, count=_AHEAD)
    return {
        "one": view,
        "address": schedule_path(view.name),
        "task": called(view.task, name=view.task_name, topic=view.topic),
        "upcoming": upcoming,
        "may_be_begun": _may_be_begun(view),
        "next_at": view.next_due_at or next((due.utc for due in upcoming if due.runs), None),
        "history": history,
        "latest": newest_runs(history.runs, since, until),
        "since": since,
        "until": until,
        "bars": duration_bars(history.runs[-_DRAWN:], most=_DRAWN),
        "picture": (_DRAWN * DURATION_WIDTH, DURATION_HEIGHT),
        "change": change_by_file(container.schedules(), name, container.jobs_files()),
        "now": queries.now(),
    }


class ScheduleParts:
    """Renders the parts of a schedule's page anew where something has happened to it.

    A thousand runs are laid out for it: whether there is something new is asked of the last ones.
    """

    def __init__(self, pages: Pages, scheduler_id: int) -> None:
        self._pages, self._id = pages, scheduler_id
        self._stand: object = None
        self._files: object = None
        self._parts: Mapping[str, str] = {}

    def __call__(self) -> tuple[datetime, Mapping[str, str]]:
        """Give the parts as they are; called in a thread that may ask the ledger.

        Raises:
            NotFound: it was deleted.
        """
        container = self._pages.container
        view = container.queries().schedule_with_id(self._id)
        runs = container.overview().sparks([self._id])
        now = container.queries().now()
        # A cell of the calendar is an hour or a day.
        hour = now.replace(minute=0, second=0, microsecond=0)
        files = container.jobs_files()  # others after a reload; to compare what is in them is dear
        stand = view, runs, hour
        if stand != self._stand or files is not self._files:
            looked = look_at_schedule(self._pages, view.name)
            fragment = self._pages.fragment
            self._parts = {part: fragment(path, **looked) for part, path in _PARTS.items()}
            self._stand, self._files = stand, files
        return now, self._parts


def _may_be_begun(view: ScheduleView) -> bool:
    """Tell whether it has no times, and its jobs file may begin it at a boot or a start."""
    is_in_a_file = view.source is not None and view.problem is None
    return is_in_a_file and not view.stay_alive and not view.has_times


def newest_runs(
    runs: Sequence[Run], since: datetime | None, until: datetime | None
) -> Sequence[Run]:
    """Give what runs and what ended last, by when it was due; of a cell of the calendar all.

    What runs long, and what is run for times long gone, was due before others that ended.
    """
    if since is None and until is None:
        listed = runs[-_RUNS_LISTED:]
    else:
        listed = [
            run
            for run in runs
            if (since is None or run.due_at >= since) and (until is None or run.due_at < until)
        ]
    return sorted(listed, key=lambda run: (run.due_at, run.id), reverse=True)


PATH: Final = "/ui/schedules"

#: Schedules on a page, and letters of a search.
_LISTED: Final = 50
_LONGEST_SEARCH: Final = 200

#: What can be asked of their state, by the word in the address.
_STATES: Final = {
    "": ("All", ScheduleFilter()),
    "enabled": ("Enabled", ScheduleFilter(enabled=True)),
    "disabled": ("Disabled", ScheduleFilter(enabled=False)),
    "paused": ("Paused", ScheduleFilter(paused=True)),
}


def _list(pages: Pages, request: Request) -> Response:
    search = request.query_params.get("search", "").strip()[:_LONGEST_SEARCH]
    state = asked_among(request, "state", [*filter(None, _STATES)]) or ""
    _, asked = _STATES[state]
    which = attrs.evolve(asked, search=search or None)
    after = request.query_params.get("after")

    lists, overview = pages.container.schedule_pages(), pages.container.overview()
    page = lists.page(which, after=after or None, limit=_LISTED)
    runs = overview.sparks([each.id for each in page.schedules])
    kept = {"search": search, "state": state}
    asked_again = urlencode({name: value for name, value in kept.items() if value})
    return pages.render(
        request,
        "schedules.html",
        page=page,
        count=lists.count(which, first=None if after else page),
        sparks={id_: sparkline(found, most=SPARKS) for id_, found in runs.items()},
        runs=runs,
        now=pages.container.queries().now(),
        search=search,
        state=state,
        states={word: title for word, (title, _) in _STATES.items()},
        most_counted=MOST_COUNTED,
        spark=(SPARKS * SPARK_WIDTH, SPARK_HEIGHT),
        after=after,
        query=asked_again,
    )


_NAME: Final = "/ui/schedules/{name:path}"


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes; those with a word after the name come before the one without."""
    return [
        pages.get(PATH, partial(_list, pages), takes=("search", "state", "after")),
        pages.get(f"{_NAME}/explain", partial(_explain, pages), takes=("at",)),
        pages.post(f"{_NAME}/run", partial(_run, pages), scope=Scope.OPERATE, takes=("params",)),
        pages.post(
            f"{_NAME}/pause", partial(_pause, pages), scope=Scope.OPERATE, takes=("reason", "for")
        ),
        pages.post(f"{_NAME}/resume", partial(_resume, pages), scope=Scope.OPERATE),
        pages.post(f"{_NAME}/enable", partial(_switch, pages, on=True), scope=Scope.ADMIN),
        pages.post(f"{_NAME}/disable", partial(_switch, pages, on=False), scope=Scope.ADMIN),
        pages.get(_NAME, partial(_show, pages), takes=("since", "until")),
    ]


def _show(pages: Pages, request: Request) -> Response:
    return _page(pages, request)


def _page(
    pages: Pages,
    request: Request,
    *,
    pause: Mapping[str, str] | None = None,
    fault: str | None = None,
) -> Response:
    """Show a schedule; with a *fault*, the form of its *pause* as it was sent."""
    name = request.path_params["name"]
    since, until = (asked_moment_or_none(request, word) for word in ("since", "until"))
    looked = look_at_schedule(pages, name, since=since, until=until)
    return pages.render(
        request,
        "schedule.html",
        status=HTTPStatus.OK if fault is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        **looked,
        feed=f"{FEED}{looked['one'].id}",
        asked_pause=pause or {},
        pause_fault=fault,
    )


def _explain(pages: Pages, request: Request) -> Response:
    name = request.path_params["name"]
    at = asked_moment_or_none(request, "at")
    found = pages.container.explanations().of_instant(name, at)
    now = pages.container.queries().now()
    return pages.render(request, "explain.html", found=found, now=now)


def _run(pages: Pages, request: Request) -> Response:
    name, form, actor = request.path_params["name"], form_of(request), actor_of(request)
    params = form.get("params", "").strip() or None
    administrator = pages.container.administrator()
    id_ = administrator.run_now(name, params=params, actor=actor).id
    return pages.done(f"/ui/executions/{id_}", f"Execution {id_} of {name} has been asked for.")


def _pause(pages: Pages, request: Request) -> Response:
    name, form, actor = request.path_params["name"], form_of(request), actor_of(request)
    reason, length = form.get("reason", "").strip() or None, form.get("for", "").strip()
    try:
        lasts = parse_duration(length) if length else None
    except DurationInvalid as error:
        return _page(pages, request, pause=form, fault=str(error))
    now = pages.container.ledger_time().now()
    until = None if lasts is None else now + lasts
    pages.container.administrator().pause({name: until}, reason=reason, by=actor.name, actor=actor)
    return pages.done(schedule_path(name), f"{name} is paused: what is due meanwhile is skipped.")


def _resume(pages: Pages, request: Request) -> Response:
    name = request.path_params["name"]
    found = pages.container.administrator().resume([name], actor=actor_of(request))
    _, was_on = found[name]
    said = f"{name} goes on." if was_on else f"{name} was not paused."
    return pages.done(schedule_path(name), said)


def _switch(pages: Pages, request: Request, *, on: bool) -> Response:
    name = request.path_params["name"]
    administrator = pages.container.administrator()
    [done] = administrator.switch([name], on=on, actor=actor_of(request))
    said = f"{name} is {'enabled' if on else 'disabled'}."
    if done.source is not None:
        said += f" The next apply of {done.source} has the last word."
    return pages.done(schedule_path(name), said)
