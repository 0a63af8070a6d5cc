"""`cronhare schedules [show | pause | resume | enable | disable | delete]`."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from cronhare.application.administration.views.schedules import (
    PauseView,
    ScheduleView,
    ScheduleWithRuns,
)
from cronhare.application.starting import keeps_alive
from cronhare.domain.cron import CronExpression, find_zone, names_matter
from cronhare.domain.schedules.keys import Trigger
from cronhare.domain.texts.moments import say_duration
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import called_in_full, counted, listed, say_no_times, say_ways
from cronhare.ports.schedules import ScheduleFilter

from ...given import Named
from ...node_identity import this_actor, this_user
from ..options import MOST_LINES, ScheduleName, ScheduleNames
from ..output import (
    Columns,
    Json,
    Styled,
    facts,
    is_terminal,
    json_line,
    print_beside,
    print_json,
    print_line,
    print_rows,
)
from ..times import display_zone, due, read_future, say_left, say_near
from ..wiring import App, load_all, open_ledger, said_ledger
from .next_due import show_due


def list_(
    context: typer.Context,
    *,
    search: Annotated[
        str | None, typer.Option(help="Only those with this in their name or description.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST_LINES, help="At most so many, by name.")
    ] = 1_000,
    json: Json = False,
) -> None:
    """List the schedules: how the last run of each stands, and when it is due next.

    The last run is one that has not ended, else the one that ended last: where a retry did, that
    may be one which was due before others.
    """
    if context.invoked_subcommand is not None:
        return
    container = open_ledger()
    now = container.queries().now()
    page = container.schedule_views().page(ScheduleFilter(search=search), limit=limit)
    found = page.schedules
    columns: Columns[ScheduleView] = {
        "NAME": "name",
        "SCHEDULE": _short_when,
        "ZONE": "timezone",
        "LAST DUE": lambda schedule: schedule.last_run and schedule.last_run.due_at,
        "RESULT": lambda schedule: schedule.last_run and Styled(schedule.last_run.state),
        "NEXT": lambda schedule: _next(schedule, now),
        "LEFT": lambda schedule: _left(schedule, now),
        "STATUS": _short_status,
    }
    empty = "No schedules. `cronhare init` begins a jobs file, `cronhare apply` puts one here."
    if search is not None:
        empty = f"No schedule has {echo(search)} in its name or description."
    elastic = ("STATUS", "SCHEDULE")
    print_rows(found, columns, json=json, empty=empty, spare=("ZONE",), elastic=elastic)
    if page.after is not None:
        first = f"The first {len(found)} by name; there are more"
        print_beside(f"{first}: --limit shows more, --search looks for some.", json=json)
    if not json and (unseen := [each.name for each in found if each.status and not each.planned]):
        who = "`cronhare up` does, or `cronhare scheduler`"
        print_line(f"No scheduler has looked at {listed(unseen)} yet: {who}")


def _next(schedule: ScheduleView, now: datetime) -> object:
    at = None if schedule.status is None else schedule.next_due_at
    return say_near(at, now, display_zone()) if at is not None and is_terminal() else at


def _left(schedule: ScheduleView, now: datetime) -> str | None:
    at = None if schedule.status is None else schedule.next_due_at
    if at is None:
        return None
    return say_left(at - now) if at > now else f"late by {say_left(now - at)}"


def _short_status(schedule: ScheduleView) -> object:
    if schedule.status is None or (schedule.status and schedule.problem):
        return f"broken: {schedule.problem}"
    if schedule.status and schedule.pause is not None and schedule.pause.on:
        return Styled("paused")
    if schedule.max_runs and schedule.runs_claimed and schedule.runs_claimed >= schedule.max_runs:
        return Styled(f"over: {counted(schedule.max_runs, 'run')}")
    return Styled("on" if schedule.status else "off")


def _short_when(schedule: ScheduleView) -> str | None:
    if schedule.status is None:
        return schedule.schedule
    if schedule.date_time is not None:
        return f"once, {due(schedule.date_time)}"
    if schedule.every_seconds is not None:
        return f"every {say_duration(timedelta(seconds=schedule.every_seconds))}"
    return schedule.schedule or say_no_times(source=schedule.source, stay_alive=schedule.stay_alive)


#: The most instants that can be asked for.
_MOST: Final = 1_000


def show(
    name: ScheduleName,
    *,
    count: Annotated[
        int, typer.Option(min=0, max=_MOST, help="How many of the next due instants.")
    ] = 5,
    json: Json = False,
) -> None:
    """Show one schedule: all that its row says, its last run, and when it is due next."""
    queries = open_ledger().queries()
    schedule = queries.schedule(name)
    upcoming = queries.upcoming(name, count=count)
    if json:
        print_json(ScheduleWithRuns(schedule=schedule, upcoming=upcoming))
        return
    facts(_facts(schedule))
    if upcoming and schedule.timezone:
        show_due(upcoming, schedule.timezone)


def _facts(one: ScheduleView) -> list[tuple[str, object]]:
    window = _duration(one.misfire_window_seconds)
    clock = f"{one.gap_policy}, {one.fold_policy}"
    task = one.task and called_in_full(one.task, name=one.task_name, source=one.source)
    misfire = f"{one.misfire_policy}, within {window}, {one.misfire_cap} at once"
    limited = f"{one.concurrency_limit} at once, by {one.concurrency_key}"
    return [
        ("schedule", f"{one.name} (id {one.id})"),
        ("problem", one.problem),
        ("description", one.description),
        ("when", _when(one)),
        ("zone", one.timezone),
        ("gap, fold", clock if one.schedule and one.gap_policy else None),
        ("status", None if one.status is None else Styled("on" if one.status else "off")),
        ("pause", pause_of(one)),
        ("task", task),
        ("topic", one.topic and f"{one.topic} (unheard: {one.no_listener})"),
        ("queue", one.queue),
        ("params", None if task is None else json_line(one.params)),
        ("retry", one.retry_facts),
        ("misfire", misfire if one.misfire_policy else None),
        ("overlap", one.overlap_policy),
        ("concurrency", limited if one.concurrency_key else None),
        ("stay alive", f"yes, by {keeps_alive(one.name)}" if one.stay_alive else None),
        ("timeout", _duration(one.timeout_seconds)),
        ("jitter", _duration(one.jitter_seconds)),
        ("starts", one.starts_at),
        ("ends", one.ends_at),
        ("max runs", one.max_runs and f"{one.max_runs}, {one.runs_claimed} so far"),
        ("pause after", one.pause_after and f"{counted(one.pause_after, 'failure')} in a row"),
        ("expires", _duration(one.expires_seconds)),
        ("skip on", ", ".join(one.skip_on or ()) or None),
        ("only on", ", ".join(one.only_on or ()) or None),
        ("blackout", ", ".join(one.blackout or ()) or None),
        ("edited", one.updated_at),
        ("planned", None if one.planned else "no scheduler has looked at the newest edit yet"),
        ("last run", _last(one)),
        ("next due", one.next_due_at),
    ]


def _when(schedule: ScheduleView) -> str | None:
    short, text = _short_when(schedule), schedule.schedule
    if schedule.status is None:
        return short
    if text is not None and names_matter(text):
        return f"{text}, which is {CronExpression.parse(text, schedule.name).plain} by its name"
    if text is not None or schedule.date_time is not None or schedule.every_seconds is not None:
        return short
    if schedule.stay_alive:
        return f"{short}: begun again whenever it has ended"
    ways = f": {say_ways(schedule.source)} (`cronhare explain`)" if schedule.source else ""
    return f"{short}{ways}"


def say_pause(pause: "PauseView") -> str:
    until = f" until {due(pause.until)}" if pause.until else ""
    by = f" by {pause.by}" if pause.by else ""
    why = f": {pause.reason}" if pause.reason else ""
    return f"since {due(pause.since)}{until}{by}{why}"


def pause_of(schedule: ScheduleView) -> str | None:
    """Say whether it is paused, and since when and why it is or was; None if it never was."""
    pause = schedule.pause
    return None if pause is None else f"{'on' if pause.on else 'over'}, {say_pause(pause)}"


_CAME_OF: Final = {Trigger.TIME: "due", Trigger.ALIVE: "to stay alive"}


def _last(schedule: ScheduleView) -> str | None:
    last = schedule.last_run
    if last is None:
        return None
    came_of = _CAME_OF.get(last.trigger, f"by {last.trigger.value}")
    return f"execution {last.execution_id}, {last.state}, {came_of} {due(last.due_at)}"


def _duration(seconds: float | None) -> str | None:
    return None if not seconds else say_duration(timedelta(seconds=seconds))


def enable(names: ScheduleNames, *, json: Json = False) -> None:
    """Let schedules be due again, from now on: what was due meanwhile does not run."""
    _switch(names, on=True, json=json)


def disable(names: ScheduleNames, *, json: Json = False) -> None:
    """Let no instant of schedules be due, until they are enabled; what runs goes on.

    `cronhare schedules pause` does so with a reason, and records what does not run.
    """
    _switch(names, on=False, json=json)


def delete(
    name: ScheduleName,
    *,
    with_history: Annotated[
        bool, typer.Option("--with-history", help="Delete its executions and their output, too.")
    ] = False,
    jobs: Annotated[
        Path | None,
        typer.Option(help="The file that it came from, and is gone from. [env: CRON_JOBS]"),
    ] = None,
    app: App = None,
) -> None:
    """Delete a schedule that no jobs file names. Its failures stay in the archive."""
    container = open_ledger()
    settings, schedule = container.settings(), container.queries().schedule(name)
    places = Named(jobs, app).places(settings) if schedule.source is not None else ()
    container.schedule_editor().delete(
        schedule.id,
        seen=None,
        actor=this_actor(),
        files=load_all(places, settings, state="Nothing was deleted."),
        with_history=with_history,
    )
    print_line(f"Deleted {name} from {said_ledger(settings)}.")


def _switch(names: Sequence[str], *, on: bool, json: bool) -> None:
    container = open_ledger()
    switched = container.administrator().switch(names, on=on, actor=this_actor())
    if json:
        print_json(switched)
        return
    for each in switched:
        was = "" if each.changed else " already"
        broken = f", but its row is broken: {each.problem}" if each.problem else ""
        print_line(f"{each.name} is {'on' if each.on else 'off'}{was}{broken}.")
    for source in dict.fromkeys(each.source for each in switched if each.source):
        of_file = [each.name for each in switched if each.source == source]
        status = str(on).lower()
        print_line(
            f"{source} has the last word on {listed(of_file)}: its next `cronhare apply`, or start "
            f"of `up`, makes that as the file says. To keep it: status = {status} there."
        )


def pause(
    names: ScheduleNames,
    *,
    reason: Annotated[str | None, typer.Option(help="Why: `explain` tells it.")] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="When it ends by itself: an ISO date-time, 18:00 (the next one), or 2h for in "
            "two hours. Without an offset it is in the schedule's zone."
        ),
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who says so; else who is logged in.")] = None,
    json: Json = False,
) -> None:
    """Let no due instant of schedules run until a time, or until `resume`.

    Each is recorded as skipped, with this reason. What was claimed before goes on, and
    `cronhare run` begins runs as ever. Pausing what is paused changes reason, author and end.
    """
    container = open_ledger()
    queries, now = container.queries(), container.ledger_time().now()
    found = {name: queries.schedule(name) for name in names}
    ends = dict[str, datetime | None]()
    for name, schedule in found.items():
        zone = find_zone(schedule.timezone or "UTC")
        ends[name] = None if until is None else read_future(until, zone, now=now)
    kept = container.administrator().pause(
        ends, reason=reason, by=by or this_user(), actor=this_actor()
    )
    if json:
        print_json({name: PauseView.of(each, now=now) for name, each in kept.items()})
        return
    for name, each in kept.items():
        print_line(f"{name} is {each}.")
        before = found[name].pause
        if before is not None and before.on:
            print_line(f"Until now: {pause_of(found[name])}.")
    if until is None:
        print_line(f"No end was said; then: cronhare schedules resume {' '.join(kept)}")


def resume(names: ScheduleNames, *, json: Json = False) -> None:
    """End pauses. What was due meanwhile is not run: `cronhare schedules backfill` does that."""
    container = open_ledger()
    now = container.ledger_time().now()
    resumed = container.administrator().resume(names, actor=this_actor())
    if json:
        print_json(
            {name: each and PauseView.of(each, now=now) for name, (each, _) in resumed.items()}
        )
        return
    for name, (each, was_on) in resumed.items():
        if was_on:
            print_line(f"{name} goes on. What was due meanwhile does not run; it was {each}.")
        else:
            print_line(f"{name} was not paused.")
