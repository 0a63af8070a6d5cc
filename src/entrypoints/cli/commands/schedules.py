"""`cronhare schedules`."""

from cronhare.application.administration.views import ScheduleView
from cronhare.domain.texts.listing import listed
from cronhare.domain.texts.moments import say_minute

from ..output import Json, print_json, print_line, state, table
from ..wiring import open_ledger


def schedules(*, json: Json = False) -> None:
    """List the schedules: when each ran last, how that ended, and when it is due next."""
    found = open_ledger().queries().schedules()
    if json:
        print_json(found)
        return
    table(
        "NAME",
        "SCHEDULE",
        "ZONE",
        "LAST DUE",
        "LAST STATE",
        "NEXT DUE",
        "STATUS",
        rows=[_row(schedule) for schedule in found],
        empty="No schedules.",
    )
    if unseen := [each for each in found if each.status and not each.planned]:
        which = listed([each.name for each in unseen])
        print_line(
            f"No scheduler has looked at {which} yet: `cronhare up` does, or `cronhare scheduler`"
        )


def _row(schedule: ScheduleView) -> tuple[object, ...]:
    last = schedule.last_run
    ran = (None, None) if last is None else (last.due_at, state(last.state))
    if schedule.status is None:
        broken = f"broken: {schedule.problem}"
        return (schedule.name, schedule.schedule, None, *ran, None, broken)
    status = state("on" if schedule.status else "off")
    return (
        schedule.name,
        _when(schedule),
        schedule.timezone,
        *ran,
        schedule.next_due_at,
        status,
    )


def _when(schedule: ScheduleView) -> str:
    if schedule.date_time is not None:
        return f"once, {say_minute(schedule.date_time)}"
    # A jobs file has none without times but `on_boot` or `on_start`; the row does not say which.
    return schedule.schedule or ("at boot or start" if schedule.source else "by hand")
