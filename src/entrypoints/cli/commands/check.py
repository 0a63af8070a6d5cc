"""`cronhare check`."""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from cronhare.adapters.jobs.reader import JobsFile
from cronhare.application.administration.jobs_file.difference import (
    clashes_among,
    queues_shared_among,
)
from cronhare.application.administration.jobs_file.notes import (
    notes_on,
    notes_on_calendars,
    notes_on_queues,
    notes_on_served,
    notes_on_targets,
    notes_on_topics,
)
from cronhare.domain.events.targets import DEFAULT_TIMEOUT, ByApprise
from cronhare.domain.texts.words import counted

from ..errors import Refusal, Refusals, clash_refusal
from ..jobs_files import JobsArguments, load, named
from ..output import print_line, print_notes
from ..wiring import read_settings


def check(jobs: JobsArguments = None) -> None:
    """Validate jobs files, of several also beside each other; every fault is told at once."""
    settings, now, state = read_settings(), datetime.now(UTC), "Nothing was applied."
    jobs = jobs or [named(None, settings, state, how="cronhare check jobs.toml")]
    files, refused = list[JobsFile](), list[Refusal]()
    for path in {os.path.realpath(path): path for path in jobs}.values():  # each file once
        try:
            files.append(load(path, settings, state=state))
        except Refusal as refusal:
            refused.append(refusal)
    refused += [*_beside_each_other(files), *_unknown_users(files), *_misunderstood(files)]
    if refused:
        raise Refusals(refused)
    for file in files:
        print_notes(notes_on(file, now=now))
        has_mail = settings.mail_server is not None
        print_notes(notes_on_targets(file.subscriptions, has_mail=has_mail))
        tasks, schedules = counted(len(file.tasks), "task"), counted(len(file.drafts), "schedule")
        print_line(f"{file.path}: {tasks} and {schedules}, no faults")
        print_line(f"  What it would change: cronhare plan {file.path}")
    print_notes(notes_on_calendars(files))
    print_notes(notes_on_topics(files))
    # Without the setting a worker serves the main queue alone, `up` whatever its file names.
    if "queues" in settings.sources.found:
        by = f"worker with this {settings.called('queues')}"
        print_notes(notes_on_served(files, settings.queues, by=by))
    print_notes(notes_on_queues(queues_shared_among(files)))


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
    if found := [*clashes_among([*first.values()])]:
        yield clash_refusal(found)


def _unknown_users(files: Sequence[JobsFile]) -> Iterator[Refusal]:
    """Refuse users that this host does not have. A worker's host may: only `check` asks."""
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


def _is_known(user: str) -> bool:
    import pwd  # noqa: PLC0415 - most tasks name none

    try:
        pwd.getpwnam(user)
    except (KeyError, ValueError):
        return False
    return True


def _misunderstood(files: Sequence[JobsFile]) -> Iterator[Refusal]:
    """Refuse addresses of services that Apprise does not understand: only `check` loads it."""
    for file in files:
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


def _understanding(means: ByApprise) -> Iterator[tuple[object, str | None]]:
    from cronhare.adapters.notify.apprise import (  # noqa: PLC0415 - most files name none
        misunderstood,
    )

    return zip(means.services, misunderstood(means.services, within=DEFAULT_TIMEOUT), strict=True)
