"""`cronhare schedules show`."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Final

import typer

from cronhare.application.administration.views.schedules import ScheduleView, ScheduleWithRuns
from cronhare.application.starting import keeps_alive
from cronhare.domain.cron import CronExpression, names_matter
from cronhare.domain.schedules.keys import Trigger
from cronhare.domain.texts.moments import say_due, say_duration
from cronhare.domain.texts.words import called_in_full, say_no_times, say_ways

from ..completion import SCHEDULES
from ..due_output import show_due
from ..output import Json, facts, json_line, print_json, state
from ..pauses import say_pause
from ..wiring import open_ledger

Name = Annotated[
    str, typer.Argument(help="The schedule's name.", show_default=False, autocompletion=SCHEDULES)
]

#: The most instants that can be asked for.
_MOST: Final = 1_000


def show(
    name: Name,
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


def _facts(schedule: ScheduleView) -> list[tuple[str, object]]:
    return [
        ("schedule", f"{schedule.name} (id {schedule.id})"),
        ("problem", schedule.problem),
        ("description", schedule.description),
        ("when", _when(schedule)),
        ("zone", schedule.timezone),
        ("gap, fold", _clock(schedule)),
        ("status", _status(schedule)),
        ("pause", pause_of(schedule)),
        ("task", schedule.task and _task(schedule)),
        ("topic", schedule.topic and f"{schedule.topic} (unheard: {schedule.no_listener})"),
        ("queue", schedule.queue),
        ("params", None if schedule.task is None else json_line(schedule.params)),
        ("retry", schedule.retry_facts),
        ("misfire", _misfire(schedule)),
        ("overlap", schedule.overlap_policy),
        ("concurrency", _concurrency(schedule)),
        ("stay alive", _stay_alive(schedule)),
        ("timeout", _duration(schedule.timeout_seconds)),
        ("jitter", _duration(schedule.jitter_seconds)),
        ("starts", schedule.starts_at),
        ("ends", schedule.ends_at),
        ("max runs", schedule.max_runs and f"{schedule.max_runs}, {schedule.runs_claimed} so far"),
        ("expires", _duration(schedule.expires_seconds)),
        ("skip on", _joined(schedule.skip_on)),
        ("only on", _joined(schedule.only_on)),
        ("blackout", _joined(schedule.blackout)),
        ("edited", schedule.updated_at),
        ("planned", None if schedule.planned else "no scheduler has looked at the newest edit yet"),
        ("last run", _last(schedule)),
        ("next due", schedule.next_due_at),
    ]


def _task(schedule: ScheduleView) -> str:
    return called_in_full(schedule.task, name=schedule.task_name, source=schedule.source)


def _when(schedule: ScheduleView) -> str | None:
    if schedule.every_seconds is not None:
        return f"every {say_duration(timedelta(seconds=schedule.every_seconds))}"
    if schedule.date_time is not None:
        return f"once, {say_due(schedule.date_time)}"
    text = schedule.schedule
    if text is None or schedule.status is None or not names_matter(text):
        return text or (None if schedule.status is None else _without_times(schedule))
    return f"{text}, which is {CronExpression.parse(text, schedule.name).plain} by its name"


def _concurrency(schedule: ScheduleView) -> str | None:
    if schedule.concurrency_key is None:
        return None
    return f"{schedule.concurrency_limit} at once, by {schedule.concurrency_key}"


def _stay_alive(schedule: ScheduleView) -> str | None:
    if not schedule.stay_alive:
        return None
    return f"yes, by {keeps_alive(schedule.name)}"


def _without_times(schedule: ScheduleView) -> str:
    short = say_no_times(source=schedule.source, stay_alive=schedule.stay_alive)
    if schedule.stay_alive:
        return f"{short}: begun again whenever it has ended"
    if schedule.source is None:
        return short
    return f"{short}: {say_ways(schedule.source)} (`cronhare explain`)"


def _clock(schedule: ScheduleView) -> str | None:
    if schedule.schedule is None or schedule.gap_policy is None:
        return None
    return f"{schedule.gap_policy}, {schedule.fold_policy}"


def _status(schedule: ScheduleView) -> object:
    return None if schedule.status is None else state("on" if schedule.status else "off")


def pause_of(schedule: ScheduleView) -> str | None:
    """Say whether it is paused, and since when and why it is or was; None if it never was."""
    pause = schedule.pause
    return None if pause is None else f"{'on' if pause.on else 'over'}, {say_pause(pause)}"


def _misfire(schedule: ScheduleView) -> str | None:
    if schedule.misfire_policy is None:
        return None
    window = _duration(schedule.misfire_window_seconds)
    return f"{schedule.misfire_policy}, within {window}, {schedule.misfire_cap} at once"


_CAME_OF: Final = {Trigger.TIME: "due", Trigger.ALIVE: "to stay alive"}


def _last(schedule: ScheduleView) -> str | None:
    last = schedule.last_run
    if last is None:
        return None
    came_of = _CAME_OF.get(last.trigger, f"by {last.trigger.value}")
    return f"execution {last.execution_id}, {last.state}, {came_of} {say_due(last.due_at)}"


def _duration(seconds: float | None) -> str | None:
    return None if not seconds else say_duration(timedelta(seconds=seconds))


def _joined(words: Sequence[str] | None) -> str | None:
    return ", ".join(words) if words else None
