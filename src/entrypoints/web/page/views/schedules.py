"""*Schedules*, and each of them: its calendar, how long it takes, its runs, and changes of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal

import attrs

from cronhare.application.administration.jobs_file.applying import change_by_file
from cronhare.domain.access import Scope
from cronhare.domain.reading import Duration
from cronhare.domain.texts.words import called
from cronhare.ports.records import Run
from cronhare.ports.schedules import MOST_COUNTED, ScheduleFilter

from ...operations import Call, Reply, Resource
from ...reading import ROWS, Limit, Moment, Text
from ..pages import Context, Done, acts, shows
from ..pictures import (
    DURATION_HEIGHT,
    DURATION_WIDTH,
    SPARK_HEIGHT,
    SPARK_WIDTH,
    duration_bars,
    sparkline,
)
from ..rendering import schedule_path

#: Runs in the list, in the picture of durations, and ahead.
_RUNS_LISTED: Final = 40
_DRAWN: Final = 120
_AHEAD: Final = 5

#: So many runs of a schedule are on its line in a list.
_SPARKS: Final = 20

PATH: Final = "/ui/schedules"
NAMED: Final = f"{PATH}/{{name:path}}"

_STATES: Final = {
    "enabled": ScheduleFilter(enabled=True),
    "disabled": ScheduleFilter(enabled=False),
    "paused": ScheduleFilter(paused=True),
}


@attrs.frozen(kw_only=True)
class ListedSchedules:
    """Which schedules are listed; `search` is a part of the name or the description."""

    search: Text | None = None
    state: Literal["enabled", "disabled", "paused"] | None = None
    after: Text | None = None
    limit: Limit = ROWS


@attrs.frozen(kw_only=True)
class WhichRuns:
    """Which runs of a schedule are listed, by when they were due."""

    since: Moment | None = None
    until: Moment | None = None


@attrs.frozen(kw_only=True)
class WhichInstant:
    """Which instant of a schedule is explained; else the last due one."""

    at: Moment | None = None


@attrs.frozen(kw_only=True)
class RunForm:
    """A run by hand: *params* stand for the schedule's own."""

    params: str | None = None


@attrs.frozen(kw_only=True)
class PauseForm:
    """Why, and for how long; without it until it is resumed."""

    reason: str | None = None
    for_: Duration | None = None


class Schedules(Resource):
    """Schedules, in a list and one by one. A word after a name comes before the name alone."""

    @shows(PATH, "schedules.html")
    def list_schedules(self, query: ListedSchedules) -> Reply[Context]:
        asked = ScheduleFilter() if query.state is None else _STATES[query.state]
        which = attrs.evolve(asked, search=query.search)
        lists = self._container.schedule_views()
        page = lists.page(which, after=query.after, limit=query.limit)
        overview = self._container.overview_store()
        runs = overview.recent([each.id for each in page.schedules], each=_SPARKS)
        shown = {
            "page": page,
            "count": lists.count(which, first=None if query.after else page),
            "sparks": {id_: sparkline(found, most=_SPARKS) for id_, found in runs.items()},
            "runs": runs,
            "states": [*_STATES],
            "most_counted": MOST_COUNTED,
            "spark": (_SPARKS * SPARK_WIDTH, SPARK_HEIGHT),
        }
        return Reply(shown, after=page.after)

    @shows(f"{NAMED}/explain", "explain.html")
    def explain(self, name: Text, query: WhichInstant) -> Context:
        return {"found": self._container.explanations().of_instant(name, query.at)}

    @acts(f"{NAMED}/run")
    def run_schedule(self, name: Text, body: RunForm, call: Call) -> Done:
        run = self._container.administrator().run_now(name, params=body.params, actor=call.actor)
        said = f"Execution {run.id} of {name} has been asked for."
        return Done(f"/ui/executions/{run.id}", said)

    @acts(f"{NAMED}/pause")
    def pause_schedule(self, name: Text, body: PauseForm, call: Call) -> Done:
        until = None if body.for_ is None else call.now + body.for_
        actor = call.actor
        self._container.administrator().pause(
            {name: until}, reason=body.reason, by=actor.name, actor=actor
        )
        return Done(schedule_path(name), f"{name} is paused: what is due meanwhile is skipped.")

    @acts(f"{NAMED}/resume")
    def resume_schedule(self, name: Text, call: Call) -> Done:
        administrator = self._container.administrator()
        _, was_on = administrator.resume([name], actor=call.actor)[name]
        said = f"{name} goes on." if was_on else f"{name} was not paused."
        return Done(schedule_path(name), said)

    @acts(f"{NAMED}/enable", scope=Scope.ADMIN)
    def enable_schedule(self, name: Text, call: Call) -> Done:
        return self._switch(name, call, on=True)

    @acts(f"{NAMED}/disable", scope=Scope.ADMIN)
    def disable_schedule(self, name: Text, call: Call) -> Done:
        return self._switch(name, call, on=False)

    def _switch(self, name: str, call: Call, *, on: bool) -> Done:
        administrator = self._container.administrator()
        [done] = administrator.switch([name], on=on, actor=call.actor)
        said = f"{name} is {'enabled' if on else 'disabled'}."
        if done.source is not None:
            said += f" The next apply of {done.source} has the last word."
        return Done(schedule_path(name), said)

    @shows(NAMED, "schedule.html", live=5)
    def show_schedule(self, name: Text, query: WhichRuns) -> dict[str, Any]:
        container, queries = self._container, self._container.queries()
        view, history = queries.schedule(name), container.schedule_views().history(name)
        upcoming = queries.upcoming(view.name, count=_AHEAD)
        # Without times of its own, its jobs file may begin it at a boot or a start.
        begins_with_file = view.source is not None and view.problem is None and not view.stay_alive
        return {
            "one": view,
            "address": schedule_path(view.name),
            "task": called(view.task, name=view.task_name, topic=view.topic),
            "upcoming": upcoming,
            "may_be_begun": begins_with_file and not view.has_times,
            "next_at": view.next_due_at or next((due.utc for due in upcoming if due.runs), None),
            "history": history,
            "latest": newest_runs(history.runs, query.since, query.until),
            "since": query.since,
            "until": query.until,
            "bars": duration_bars(history.runs[-_DRAWN:], most=_DRAWN),
            "picture": (_DRAWN * DURATION_WIDTH, DURATION_HEIGHT),
            "change": change_by_file(container.schedules(), name, container.jobs_files()),
        }


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
