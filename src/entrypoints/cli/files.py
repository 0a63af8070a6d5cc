"""`cronhare check | plan | apply`: schedules as files."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import attrs
import msgspec
import typer

from cronhare.adapters.jobs.reader import JobsFile
from cronhare.application.difference import Change, FieldChange, ScheduleChange
from cronhare.domain.cron import CronExpression

from .output import Json, print_json, tell
from .wiring import JobsArgument, load, open_ledger, plural, read_settings

SIGNS = {
    Change.ADD: ("+", "green"),
    Change.CHANGE: ("~", "yellow"),
    Change.DISABLE: ("-", "red"),
    Change.KEEP: ("=", "bright_black"),
}


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(check)
    app.command()(plan)
    app.command()(apply)


def check(jobs: JobsArgument) -> None:
    """Validate a jobs file; every fault is told at once."""
    file = load(jobs, read_settings(), state="Nothing was applied.")
    _print_notes(file, datetime.now(UTC))
    tasks, schedules = plural(len(file.tasks), "task"), plural(len(file.drafts), "schedule")
    tell(f"{jobs}: {tasks} and {schedules}, no faults")


def plan(jobs: JobsArgument, *, json: Json = False) -> None:
    """Show what `apply` would change."""
    container = open_ledger()
    file = load(jobs, container.settings(), state="Nothing was compared.")
    changes = container.administrator().compare(file.drafts, source=file.source)
    if json:
        print_json([_plain(change) for change in changes])
        return
    _print_changes(changes)
    tell(f"This would be: {_count(changes)}. To make it so: cronhare apply {jobs}")


def apply(jobs: JobsArgument, *, json: Json = False) -> None:
    """Make the schedules table as the jobs file says."""
    container = open_ledger()
    file = load(jobs, container.settings(), state="Nothing was applied.")
    now = container.claims().now()
    changes = container.administrator().apply(file.drafts, source=file.source, now=now)
    if json:
        print_json([_plain(change) for change in changes])
        return
    _print_notes(file, now)
    _print_changes(changes)
    tell(f"Applied: {_count(changes)}.")


def _print_notes(file: JobsFile, now: datetime) -> None:
    for note in notes(file, now):
        tell(f"  note: {note}", style="yellow")


def notes(file: JobsFile, now: datetime) -> Iterator[str]:
    """Say what is allowed and probably not meant."""
    for draft in file.drafts:
        if draft.date_time is not None and draft.date_time <= now:
            yield f"schedules.{draft.name}: date_time is in the past: it will not run"
        if draft.schedule is not None:
            for note in CronExpression.parse(draft.schedule).warnings:
                yield f"schedules.{draft.name}: schedule: {note}"


def _print_changes(changes: Sequence[ScheduleChange]) -> None:
    for change in changes:
        sign, colour = SIGNS[change.change]
        if change.change is Change.KEEP:
            continue
        tell(f"{sign} {change.name}", style=colour)
        for field in change.fields:
            tell(f"    {field.field}: {_say(field.before)} → {_say(field.after)}")


def _count(changes: Sequence[ScheduleChange]) -> str:
    counts = {kind: sum(each.change is kind for each in changes) for kind in Change}
    return (
        f"{counts[Change.ADD]} added, {counts[Change.CHANGE]} changed, "
        f"{counts[Change.DISABLE]} disabled, {counts[Change.KEEP]} as they were"
    )


def _plain(change: ScheduleChange) -> dict[str, object]:
    return {
        "name": change.name,
        "change": change.change.value,
        "fields": [_field(field) for field in change.fields],
    }


def _field(field: FieldChange) -> dict[str, object]:
    return {"field": field.field, "before": _say(field.before), "after": _say(field.after)}


def _say(value: object) -> str:
    if attrs.has(type(value)):
        return msgspec.json.encode(value, enc_hook=str).decode()
    return "nothing" if value is None else str(value)
