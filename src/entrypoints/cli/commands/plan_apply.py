"""`cronhare plan | apply`."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import attrs
import msgspec

from cronhare.application.administration.jobs_file.difference import (
    Change,
    ChangedKind,
    ScheduleChange,
)
from cronhare.application.administration.jobs_file.notes import (
    notes_on,
    notes_on_changes,
    notes_on_clocks,
    notes_on_keys,
    notes_on_queues,
)
from cronhare.application.administration.reading.schedules import next_effects
from cronhare.application.administration.views.schedules import ScheduleChangeView
from cronhare.application.doctor.nodes import older_files
from cronhare.domain.nodes import MOST_REPORTS
from cronhare.domain.texts.words import counted

from ...node_identity import this_actor
from ..jobs_files import JobsArgument, load, named
from ..output import Json, print_json, print_line, print_notes
from ..progress import working
from ..wiring import open_ledger, said_ledger

if TYPE_CHECKING:
    from cronhare.adapters.jobs.reader import JobsFile
    from cronhare.application.administration.jobs_file.applying import JobsFileApplier

#: So many changes are printed; `--json` has all.
MOST_CHANGES = 20

SIGNS = {
    Change.ADD: ("+", "green"),
    Change.CHANGE: ("~", "yellow"),
    Change.DISABLE: ("-", "red"),
}


def plan(jobs: JobsArgument = None, *, json: Json = False) -> None:
    """Show what `apply` would change."""
    container, state = open_ledger(), "Nothing was compared."
    jobs = named(jobs, container.settings(), state, how="cronhare plan jobs.toml")
    file = load(jobs, container.settings(), state=state)
    applier = container.applier()
    with working(f"Comparing {jobs} with the ledger"):
        changes, now = applier.compare(file), container.ledger_time().now()
    if json:
        print_json(_views(changes, now))
        return
    print_notes(notes_on_keys(file))
    _print_changes(changes, file, applier, applied=False)
    print_notes(notes_on_clocks(changes, now=now))
    print_line(f"This would be: {_count(changes)}. To make it so: cronhare apply {jobs}")
    print_line(f"Ledger: {said_ledger(container.settings())}")


def apply(jobs: JobsArgument = None, *, json: Json = False) -> None:
    """Make the schedules table as the jobs file says."""
    container, state = open_ledger(), "Nothing was applied."
    jobs = named(jobs, container.settings(), state, how="cronhare apply jobs.toml")
    file = load(jobs, container.settings(), state=state)
    applier, now = container.applier(), container.ledger_time().now()
    with working(f"Applying {counted(len(file.drafts), 'schedule')} of {jobs}") as on_progress:
        changes = applier.apply(file, now=now, actor=this_actor(), on_progress=on_progress)
    if json:
        print_json(_views(changes, now))
        return
    print_notes(notes_on(file, now=now))
    _print_changes(changes, file, applier, applied=True)
    print_line(f"Applied to {said_ledger(container.settings())}: {_count(changes)}.")
    if any(change.change is not Change.KEEP for change in changes):
        seconds = container.settings().refresh.total_seconds()
        print_line(f"A scheduler at work sees it within {seconds:g} s; then: cronhare schedules")
    nodes = container.nodes().nodes(now=now, limit=MOST_REPORTS).reports
    print_notes(f"{each.what}: {each.cure}" for each in older_files(nodes, file.version, now=now))


def _views(changes: Sequence[ScheduleChange], now: datetime) -> Sequence[ScheduleChangeView]:
    return [
        ScheduleChangeView.of(
            change,
            ()
            if change.draft is None or change.change is Change.KEEP
            else next_effects(change.draft, now=now),
        )
        for change in changes
    ]


def _print_changes(
    changes: Sequence[ScheduleChange],
    file: "JobsFile",
    applier: "JobsFileApplier",
    *,
    applied: bool,
) -> None:
    found = [change for change in changes if change.change is not Change.KEEP]
    for change in found[:MOST_CHANGES]:
        sign, colour = SIGNS[change.change]
        what = "calendar " if change.kind is ChangedKind.CALENDAR else ""
        print_line(f"{sign} {what}{change.name}", style=colour)
        for field in change.fields:
            print_line(f"    {field.field}: {_say(field.before)} → {_say(field.after)}")
    if (more := len(found) - MOST_CHANGES) > 0:
        print_line(f"and {more:,} more; --json has all")
    print_notes(notes_on_changes(changes, source=file.source, applied=applied))
    print_notes(notes_on_queues(applier.shared_queues(file)))


def _count(changes: Sequence[ScheduleChange]) -> str:
    counts = Counter(change.change for change in changes if change.kind is ChangedKind.SCHEDULE)
    return (
        f"{counts[Change.ADD]} added, {counts[Change.CHANGE]} changed, "
        f"{counts[Change.DISABLE]} disabled, {counts[Change.KEEP]} as they were"
        f"{_count_calendars(changes)}"
    )


def _count_calendars(changes: Sequence[ScheduleChange]) -> str:
    counts = Counter(change.change for change in changes if change.kind is ChangedKind.CALENDAR)
    said = {Change.ADD: "added", Change.CHANGE: "changed", Change.DISABLE: "removed"}
    return "".join(
        f"; {counted(counts[kind], 'calendar')} {verb}"
        for kind, verb in said.items()
        if counts[kind]
    )


def _say(value: object) -> str:
    if attrs.has(type(value)):
        return msgspec.json.encode(value, enc_hook=str).decode()
    return "nothing" if value is None else str(value)
