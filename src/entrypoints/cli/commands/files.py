"""`cronhare check | plan | apply`: schedules as files."""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import attrs
import msgspec
import typer

from cronhare.adapters.jobs.reader import JobsFile
from cronhare.adapters.process.attempt.account import is_known
from cronhare.application.administration.difference import Change, FieldChange, ScheduleChange
from cronhare.domain.cron import CronExpression
from cronhare.domain.schedules.clashes import (
    ONE_FILE_EACH,
    Clash,
    Holder,
    clashes,
    say_disabled,
    say_shared,
    shared_queues,
)
from cronhare.domain.texts.listing import counted

from ..errors import Refusal, Refusals, clash_refusal
from ..output import Json, print_json, print_line
from ..wiring import JobsArgument, JobsArguments, load, open_ledger, read_settings, said_ledger

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


def check(jobs: JobsArguments) -> None:
    """Validate jobs files, of several also beside each other; every fault is told at once."""
    settings, now = read_settings(), datetime.now(UTC)
    files, refused = list[JobsFile](), list[Refusal]()
    for path in {os.path.realpath(path): path for path in jobs}.values():  # each file once
        try:
            files.append(load(path, settings, state="Nothing was applied."))
        except Refusal as refusal:
            refused.append(refusal)
    refused += [*_beside_each_other(files), *_unknown_users(files)]
    if refused:
        raise Refusals(refused)
    for file in files:
        _print_notes(file, now)
        tasks, schedules = counted(len(file.tasks), "task"), counted(len(file.drafts), "schedule")
        print_line(f"{file.path}: {tasks} and {schedules}, no faults")
        print_line(f"  What it would change: cronhare plan {file.path}")
    used = [(draft.queue, file.source) for file in files for draft in file.drafts if draft.status]
    _print_shared(shared_queues(used))


def _beside_each_other(files: Sequence[JobsFile]) -> Iterator[Refusal]:
    """Refuse what sound files must not have in common."""
    first = dict[str, JobsFile]()
    faults = [
        f"{file.path}: source: {file.source} is {other.path} already"
        for file in files
        if (other := first.setdefault(file.source, file)) is not file
    ]
    if faults:  # each would switch off what is the other's
        advice = 'Begin one of them with another name: source = "…".'
        yield Refusal("the ledger would take these files for one", faults, advice)
    if found := [*_clashes([*first.values()])]:
        yield clash_refusal(found)


def _unknown_users(files: Sequence[JobsFile]) -> Iterator[Refusal]:
    """Tell what would fail for good on this host. Another may well have them: only `check` asks."""
    for file in files:
        faults = [
            f"tasks.{task.name}: user: this host has no user {task.user}; where its worker runs, "
            "it must have"
            for task in file.tasks
            if task.user is not None and not is_known(task.user)
        ]
        if faults:
            what = f"{file.path}: {counted(len(faults), 'task')} cannot run on this host"
            yield Refusal(what, faults, "Check it where the worker runs, or correct the name.")


def plan(jobs: JobsArgument, *, json: Json = False) -> None:
    """Show what `apply` would change."""
    container = open_ledger()
    file = load(jobs, container.settings(), state="Nothing was compared.")
    changes = container.administrator().compare(file.drafts, tasks=file.tasks, source=file.source)
    if json:
        print_json([_plain(change) for change in changes])
        return
    _print_changes(changes)
    _print_replacement(changes, file, "would be")
    _print_shared(container.administrator().shared_queues(file.drafts, source=file.source))
    print_line(f"This would be: {_count(changes)}. To make it so: cronhare apply {jobs}")
    print_line(f"Ledger: {said_ledger(container.settings())}")


def apply(jobs: JobsArgument, *, json: Json = False) -> None:
    """Make the schedules table as the jobs file says."""
    container = open_ledger()
    file = load(jobs, container.settings(), state="Nothing was applied.")
    now = container.claims().now()
    changes = container.administrator().apply(
        file.drafts, tasks=file.tasks, source=file.source, now=now
    )
    if json:
        print_json([_plain(change) for change in changes])
        return
    _print_notes(file, now)
    _print_changes(changes)
    _print_replacement(changes, file, "are")
    _print_shared(container.administrator().shared_queues(file.drafts, source=file.source))
    print_line(f"Applied to {said_ledger(container.settings())}: {_count(changes)}.")
    if any(change.change is not Change.KEEP for change in changes):
        seconds = container.settings().refresh.total_seconds()
        print_line(f"A scheduler at work sees it within {seconds:g} s; then: cronhare schedules")


def _print_replacement(changes: Sequence[ScheduleChange], file: JobsFile, verb: str) -> None:
    """Tell that nothing stays of what a file of this name had: it may be another one."""
    if {change.change for change in changes} == {Change.ADD, Change.DISABLE}:
        gone = [change.name for change in changes if change.change is Change.DISABLE]
        what = f"all of its former schedules {verb} {say_disabled(gone, file.source)}"
        print_line(f"  note: {what}", style="yellow")


def _print_notes(file: JobsFile, now: datetime) -> None:
    for note in notes(file, now):
        print_line(f"  note: {note}", style="yellow")


def _clashes(files: Sequence[JobsFile]) -> Iterator[Clash]:
    """Find what a file has in common with those before it."""
    names, holders = dict[str, str](), list[Holder]()
    for file in files:
        yield from clashes(file.drafts, file.tasks, names=names, holders=holders)
        names = {draft.name: file.source for draft in file.drafts} | names
        holders += [
            Holder(ref=task.ref, source=file.source, place=f"tasks.{task.name}")
            for task in file.tasks
        ]


def _print_shared(shared: Mapping[str, Sequence[str]]) -> None:
    for queue, sources in shared.items():
        note = f"  note: {say_shared(queue, sources)}: {ONE_FILE_EACH}"
        print_line(note, style="yellow")


def notes(file: JobsFile, now: datetime) -> Iterator[str]:
    """Say what is allowed and probably not meant."""
    if not file.tasks:
        yield "it has no task at all: no worker starts with it, nor does `cronhare up`"
    for draft in file.drafts:
        if draft.date_time is not None and draft.date_time <= now:
            yield f"schedules.{draft.name}: date_time is in the past: it will not run"
        if draft.name in file.on_start:
            told = "on_start runs at each start of `cronhare up`, and of no worker"
            yield f"schedules.{draft.name}: {told}"
        if draft.schedule is not None:
            for note in CronExpression.parse(draft.schedule).warnings:
                yield f"schedules.{draft.name}: schedule: {note}"


def _print_changes(changes: Sequence[ScheduleChange]) -> None:
    for change in changes:
        sign, colour = SIGNS[change.change]
        if change.change is Change.KEEP:
            continue
        print_line(f"{sign} {change.name}", style=colour)
        for field in change.fields:
            print_line(f"    {field.field}: {_say(field.before)} → {_say(field.after)}")


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
