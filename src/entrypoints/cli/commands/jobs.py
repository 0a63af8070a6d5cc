"""`cronhare check | plan | apply` and `cronhare schedules export`: what is about jobs files."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import msgspec
import typer

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, read_jobs_text
from cronhare.application.administration.jobs_file import notes
from cronhare.application.administration.jobs_file.difference import (
    Change,
    ChangedKind,
    ScheduleChange,
    queues_shared_among,
)
from cronhare.application.administration.jobs_file.export import CannotExport, Chosen, Exporter
from cronhare.application.administration.reading.schedules import next_effects
from cronhare.application.administration.views.schedules import ExportView, ScheduleChangeView
from cronhare.application.doctor.nodes import older_files
from cronhare.domain.events.targets import DEFAULT_TIMEOUT, ByApprise
from cronhare.domain.nodes import MOST_REPORTS, NodeReport
from cronhare.domain.texts.printable import printable
from cronhare.domain.texts.words import NAME, counted, listed

from ...given import Named, as_argument
from ...node_identity import this_actor
from ..errors import Refusal, write_new
from ..options import SCHEDULES, one_of
from ..output import Json, print_json, print_line, print_notes, working
from ..wiring import (
    App,
    JobsArgument,
    JobsArguments,
    jobs_refusal,
    load_all,
    named,
    open_ledger,
    read_settings,
    said_ledger,
)

if TYPE_CHECKING:
    from cronhare.application.administration.jobs_file.applying import JobsFileApplier

    from ...container import Container


def check(jobs: JobsArguments = None, *, app: App = None) -> None:
    """Validate jobs files and an app, also beside each other; every fault is told at once."""
    settings, now, state = read_settings(), datetime.now(UTC), "Nothing was applied."
    once = {os.path.realpath(path): path for path in jobs or ()}.values()  # each file once
    places = (*once, *Named(app=app).places()) or named(
        Named(), settings, state, how="cronhare check jobs.toml"
    )
    files = load_all(places, settings, state=state, more=_unusable_here)
    for file in files:
        print_notes(notes.notes_on(file, now=now))
        has_mail = settings.mail_server is not None
        print_notes(notes.notes_on_targets(file.subscriptions, has_mail=has_mail))
        tasks, schedules = counted(len(file.tasks), "task"), counted(len(file.drafts), "schedule")
        print_line(f"{file.path}: {tasks} and {schedules}, no faults")
        print_line(f"  What it would change: cronhare plan {as_argument(file.path)}")
    print_notes(notes.notes_on_calendars(files))
    print_notes(notes.notes_on_topics(files))
    # Without the setting a worker serves the main queue alone, `up` whatever its file names.
    if "queues" in settings.sources.found:
        by = f"worker with this {settings.called('queues')}"
        print_notes(notes.notes_on_served(files, settings.queues, by=by))
    if not (len(files) == 2 and isinstance(files[1].path, str)):  # noqa: PLR2004 - see `Named`
        print_notes(notes.notes_on_queues(queues_shared_among(files)))


def _unusable_here(files: Sequence[JobsFile]) -> Iterator[Refusal]:
    """Refuse what only `check` asks: users of this host, and services that Apprise understands.

    A worker's host may have other users.
    """
    for file in files:
        faults = [
            f"tasks.{task.name}: user: this host has no user {task.user}; where its worker runs, "
            "it must have"
            for task in file.tasks
            if task.user is not None and not _is_known(task.user)
        ]
        if faults:
            what = f"{file.path}: {counted(len(faults), 'task')} cannot run on this host"
            yield Refusal(what, faults, "Check it where the worker runs, or correct the name.")
        faults = [
            f"notify.{target.name}: apprise: {service}: {fault}"
            for target in file.subscriptions.targets.values()
            if isinstance(target.means, ByApprise) and target.means.lacks is None
            for service, fault in _understanding(target.means)
            if fault is not None
        ]
        if faults:
            what = f"{file.path}: {counted(len(faults), 'service')} cannot be told"
            yield Refusal(what, faults, "https://github.com/caronc/apprise/wiki says how they are.")


def _is_known(user: str) -> bool:
    import pwd  # noqa: PLC0415 - most tasks name none

    try:
        pwd.getpwnam(user)
    except (KeyError, ValueError):
        return False
    return True


def _understanding(means: ByApprise) -> Iterator[tuple[object, str | None]]:
    from cronhare.adapters.notify.apprise import misunderstood  # noqa: PLC0415 - most name none

    return zip(means.services, misunderstood(means.services, within=DEFAULT_TIMEOUT), strict=True)


#: So many changes are printed; `--json` has all.
MOST_CHANGES = 20

SIGNS = {Change.ADD: ("+", "green"), Change.CHANGE: ("~", "yellow"), Change.DISABLE: ("-", "red")}


def plan(jobs: JobsArgument = None, *, app: App = None, json: Json = False) -> None:
    """Show what `apply` would change."""
    container = open_ledger()
    files = _asked_for("plan", Named(jobs, app), container, state="Nothing was compared.")
    applier, compared = container.applier(), list[Sequence[ScheduleChange]]()
    for file in files:
        with working(f"Comparing {file.path} with the ledger"):
            compared.append(applier.compare(file))
    now = container.ledger_time().now()
    if json:
        print_json(_views([change for changes in compared for change in changes], now))
        return
    nodes = container.nodes().nodes(now=now, limit=MOST_REPORTS).reports
    for file, changes in zip(files, compared, strict=True):
        print_notes(notes.notes_on_keys(file))
        _print_changes(changes, files, file, applier, applied=False)
        print_notes(notes.notes_on_clocks(changes, now=now))
        to_apply = f" To make it so: cronhare apply {as_argument(file.path)}"
        print_line(f"This would be: {_counted(changes)}.{to_apply if _differ(changes) else ''}")
        print_notes(_notes_on_nodes(nodes, file, now))
    print_line(f"Ledger: {said_ledger(container.settings())}")


def apply(jobs: JobsArgument = None, *, app: App = None, json: Json = False) -> None:
    """Make the schedules table as the jobs file, or the app, says."""
    container = open_ledger()
    files = _asked_for("apply", Named(jobs, app), container, state="Nothing was applied.")
    applier, now = container.applier(), container.ledger_time().now()
    if len(files) > 1:
        for file in files:
            applier.compare(file)  # what cannot be applied is told before anything is
    applied = list[Sequence[ScheduleChange]]()
    for file in files:
        what = f"Applying {counted(len(file.drafts), 'schedule')} of {file.path}"
        with working(what) as on_progress:
            applied.append(applier.apply(file, actor=this_actor(), on_progress=on_progress))
    if json:
        print_json(_views([change for changes in applied for change in changes], now))
        return
    nodes = container.nodes().nodes(now=now, limit=MOST_REPORTS).reports
    for file, changes in zip(files, applied, strict=True):
        print_notes(notes.notes_on(file, now=now))
        _print_changes(changes, files, file, applier, applied=True)
        print_line(f"Applied to {said_ledger(container.settings())}: {_counted(changes)}.")
        print_notes(_notes_on_nodes(nodes, file, now))
    if any(map(_differ, applied)):
        seconds = container.settings().refresh.total_seconds()
        print_line(f"A scheduler at work sees it within {seconds:g} s; then: cronhare schedules")


def _asked_for(
    command: str, given: Named, container: "Container", *, state: str
) -> Sequence[JobsFile]:
    settings = container.settings()
    places = named(given, settings, state, how=f"cronhare {command} jobs.toml")
    return load_all(places, settings, state=state)


def _notes_on_nodes(nodes: Sequence[NodeReport], file: JobsFile, now: datetime) -> Iterator[str]:
    """Tell what the ledger does not know: commands that differ are in the nodes' files alone."""
    for each in older_files(nodes, file.version, now=now):
        yield f"{each.what}: {each.cure}"


def _differ(changes: Sequence[ScheduleChange]) -> bool:
    return any(change.change is not Change.KEEP for change in changes)


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
    files: Sequence[JobsFile],
    file: JobsFile,
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
    print_notes(notes.notes_on_changes(changes, source=file.source, applied=applied))
    print_notes(notes.notes_on_renames(changes, file=file))
    beside = [each.source for each in files]
    print_notes(notes.notes_on_queues(applier.shared_queues(file, beside=beside)))


def _counted(changes: Sequence[ScheduleChange]) -> str:
    counts = Counter((change.kind, change.change) for change in changes)
    schedule, calendar = ChangedKind.SCHEDULE, ChangedKind.CALENDAR
    said = {Change.ADD: "added", Change.CHANGE: "changed", Change.DISABLE: "removed"}
    return (
        f"{counts[schedule, Change.ADD]} added, {counts[schedule, Change.CHANGE]} changed, "
        f"{counts[schedule, Change.DISABLE]} disabled, "
        f"{counts[schedule, Change.KEEP]} as they were"
        + "".join(
            f"; {counted(counts[calendar, kind], 'calendar')} {verb}"
            for kind, verb in said.items()
            if counts[calendar, kind]
        )
    )


def _say(value: object) -> str:
    if attrs.has(type(value)):
        return msgspec.json.encode(value, enc_hook=str).decode()
    return "nothing" if value is None else str(value)


def export(
    names: Annotated[list[str] | None, one_of("Only these schedules.", SCHEDULES)] = None,
    *,
    source: Annotated[
        str | None, typer.Option(help="Those of this jobs file; needed if there are several.")
    ] = None,
    by_hand: Annotated[
        bool, typer.Option("--by-hand", help="Those that came from no jobs file.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it here, instead of printing it.")
    ] = None,
    json: Json = False,
) -> None:
    """Write a jobs file of schedules, to which `plan` finds no difference.

    What tasks run is known to no ledger: each has a command that fails, to be replaced.
    """
    from cronhare.adapters.jobs.writer import write_jobs  # noqa: PLC0415 - no other writes one

    if by_hand and source is not None:
        raise Refusal("--by-hand means schedules of no source: leave one of the two out")
    container = open_ledger()
    exporter, policy = Exporter(container.schedules()), container.settings().policy
    try:
        chosen = exporter.choose(names or [], source=source, by_hand=by_hand)
        path = output or Path(chosen.source or "jobs.toml")
        written = write_jobs(
            chosen.drafts,
            # One that cannot stand in a file is the name of the file itself.
            source=chosen.source if re.fullmatch(NAME, chosen.source or "") else None,
            path=path,
            policy=policy,
            calendars=chosen.calendars,
        )
        file = read_jobs_text(written.text, path, policy=policy)
    except CannotExport as error:
        raise Refusal(str(error)) from error
    except JobsFileInvalid as error:
        raise jobs_refusal(error, "Nothing was written.") from error
    kept = [draft.name for draft in file.drafts]
    view = ExportView(
        source=file.source,
        schedules=kept,
        left_out={**chosen.left_out, **written.left_out},
        differs=exporter.differences(file.drafts, file.calendars, source=file.source),
        disables=[name for name in chosen.others if name not in kept],
        text=written.text,
        calendars=[calendar.name for calendar in file.calendars],
    )
    if output is not None:
        write_new(output, written.text, if_there="Choose another name.")
    if json:
        print_json(view)
        return
    if output is None:
        sys.stdout.write(written.text)
    for line in _remarks(view, chosen, file, output):
        sys.stderr.write(f"{printable(line)}\n")


def _remarks(
    view: ExportView, chosen: Chosen, file: JobsFile, output: Path | None
) -> Iterator[str]:
    where = f"Wrote {output}: " if output is not None else ""
    dated = f" and {counted(len(view.calendars), 'calendar')}" if view.calendars else ""
    schedules = f"{counted(len(view.schedules), 'schedule')}{dated}"
    yield f"{where}{schedules} of {chosen.source or 'no source'}."
    for name, why in view.left_out.items():
        yield f"left out: {name}: {why}"
    for name, source in chosen.elsewhere.items():
        yield f"calendars.{name}: stays with {source}, which has it"
    if chosen.source is not None and chosen.source != file.source:
        yield f"Its source is the name of its file: save it as {chosen.source}."
    if chosen.source is None:
        yield f"Applied, these schedules are those of {file.source}, no more by hand."
        return
    for name, fields in view.differs.items():
        yield f"differs: {name}: {listed(fields)}"
    if view.disables:
        yield f"Applied, it disables {listed([*view.disables])}: they are of {chosen.source}, too."
