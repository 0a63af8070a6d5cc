"""`cronhare schedules` without a command: the list."""

import sys
from datetime import datetime, timedelta

from cronhare.application.administration.views.schedules import ScheduleView
from cronhare.domain.texts.moments import say_due, say_duration, say_left, say_near
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import counted, listed, say_no_times
from cronhare.ports.schedules import ScheduleFilter

from ..output import print_line, state
from ..rows import Columns, print_rows
from ..wiring import open_ledger

_NONE = "No schedules. `cronhare init` begins a jobs file, `cronhare apply` puts one here."


def list_(*, search: str | None, limit: int, json: bool) -> None:
    """List the schedules by name, at most *limit*; what is left out is told after the list."""
    container = open_ledger()
    now = container.queries().now()
    page = container.schedule_pages().page(ScheduleFilter(search=search), limit=limit)
    found = page.schedules
    columns: Columns[ScheduleView] = {
        "NAME": "name",
        "SCHEDULE": _when,
        "ZONE": "timezone",
        "LAST DUE": lambda schedule: schedule.last_run and schedule.last_run.due_at,
        "RESULT": lambda schedule: schedule.last_run and state(schedule.last_run.state),
        "NEXT": lambda schedule: _next(schedule, now),
        "LEFT": lambda schedule: _left(schedule, now),
        "STATUS": _status,
    }
    print_rows(
        found,
        columns,
        json=json,
        empty=_NONE
        if search is None
        else f"No schedule has {echo(search)} in its name or description.",
        spare=("ZONE",),
        elastic=("STATUS", "SCHEDULE"),
    )
    if page.after is not None:
        _tell_of_more(len(found), json=json)
    if not json and (unseen := [each.name for each in found if each.status and not each.planned]):
        print_line(
            f"No scheduler has looked at {listed(unseen)} yet: `cronhare up` does, or "
            "`cronhare scheduler`"
        )


def _tell_of_more(shown: int, *, json: bool) -> None:
    more = f"The first {shown} by name; there are more: --limit shows more, --search looks for some"
    if json:  # which stays one document
        sys.stderr.write(f"{more}.\n")
    else:
        print_line(f"{more}.")


def _next(schedule: ScheduleView, now: datetime) -> object:
    """Say when it is due next: on a terminal without what is as today."""
    due = None if schedule.status is None else schedule.next_due_at
    return say_near(due, now) if due is not None and sys.stdout.isatty() else due


def _left(schedule: ScheduleView, now: datetime) -> str | None:
    due = None if schedule.status is None else schedule.next_due_at
    if due is None:
        return None
    return say_left(due - now) if due > now else f"late by {say_left(now - due)}"


def _status(schedule: ScheduleView) -> object:
    if schedule.status is None or (schedule.status and schedule.problem):
        return f"broken: {schedule.problem}"
    if schedule.status and schedule.pause is not None and schedule.pause.on:
        return state("paused")
    if schedule.max_runs and schedule.runs_claimed and schedule.runs_claimed >= schedule.max_runs:
        return state(f"over: {counted(schedule.max_runs, 'run')}")
    return state("on" if schedule.status else "off")


def _when(schedule: ScheduleView) -> str | None:
    if schedule.status is None:
        return schedule.schedule
    if schedule.date_time is not None:
        return f"once, {say_due(schedule.date_time)}"
    if schedule.every_seconds is not None:
        return f"every {say_duration(timedelta(seconds=schedule.every_seconds))}"
    return schedule.schedule or say_no_times(source=schedule.source, stay_alive=schedule.stay_alive)
