"""What the page of a schedule shows, and what of it changes while one looks."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from cronhare.application.administration.jobs_file.applying import change_by_file
from cronhare.application.administration.views.schedules import ScheduleView
from cronhare.domain.texts.words import called
from cronhare.ports.records import Run

from .addresses import schedule_path
from .bars import DURATION_HEIGHT, DURATION_WIDTH, duration_bars
from .pages import Pages

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
_LISTED: Final = 40
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
        "change": change_by_file(container.schedules(), name, container.jobs_file()),
        "now": queries.now(),
    }


class ScheduleParts:
    """Renders the parts of a schedule's page anew where something has happened to it.

    A thousand runs are laid out for it: whether there is something new is asked of the last ones.
    """

    def __init__(self, pages: Pages, scheduler_id: int) -> None:
        self._pages, self._id = pages, scheduler_id
        self._stand: object = None
        self._file: object = None
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
        file = container.jobs_file()  # another after a reload; to compare what is in it is dear
        stand = view, runs, hour
        if stand != self._stand or file is not self._file:
            looked = look_at_schedule(self._pages, view.name)
            fragment = self._pages.fragment
            self._parts = {part: fragment(path, **looked) for part, path in _PARTS.items()}
            self._stand, self._file = stand, file
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
        listed = runs[-_LISTED:]
    else:
        listed = [
            run
            for run in runs
            if (since is None or run.due_at >= since) and (until is None or run.due_at < until)
        ]
    return sorted(listed, key=lambda run: (run.due_at, run.id), reverse=True)
