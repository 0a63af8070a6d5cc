"""`cronhare schedules`."""

from datetime import timedelta

from cronhare.application.administration.views import ScheduleView
from cronhare.domain.texts.durations import say_duration
from cronhare.domain.texts.listing import listed
from cronhare.domain.texts.moments import say_due

from ..output import Columns, Json, print_line, print_rows, state
from ..wiring import open_ledger


def schedules(*, json: Json = False) -> None:
    """List the schedules: when each ran last, how that ended, and when it is due next."""
    found = open_ledger().queries().schedules()
    columns: Columns[ScheduleView] = {
        "NAME": "name",
        "SCHEDULE": _when,
        "ZONE": "timezone",
        "LAST DUE": lambda schedule: schedule.last_run and schedule.last_run.due_at,
        "LAST STATE": lambda schedule: schedule.last_run and state(schedule.last_run.state),
        "NEXT DUE": lambda schedule: None if schedule.status is None else schedule.next_due_at,
        "STATUS": _status,
    }
    print_rows(found, columns, json=json, empty="No schedules.")
    if not json and (unseen := [each.name for each in found if each.status and not each.planned]):
        print_line(
            f"No scheduler has looked at {listed(unseen)} yet: `cronhare up` does, or "
            "`cronhare scheduler`"
        )


def _status(schedule: ScheduleView) -> object:
    if schedule.status is None:
        return f"broken: {schedule.problem}"
    return state("on" if schedule.status else "off")


def _when(schedule: ScheduleView) -> str | None:
    if schedule.status is None:
        return schedule.schedule
    if schedule.date_time is not None:
        return f"once, {say_due(schedule.date_time)}"
    if schedule.every_seconds is not None:
        return f"every {say_duration(timedelta(seconds=schedule.every_seconds))}"
    # A jobs file has none without times but `on_boot` or `on_start`; the row does not say which.
    return schedule.schedule or ("at boot or start" if schedule.source else "by hand")
