"""Whose task a schedule runs: what several jobs files on one ledger share, and must not."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from cronhare.application.reports.clashes import say_shared, shared_queues
from cronhare.domain.schedules.catalog import ONE_FILE_EACH, Catalog, MissingKind, MissingTask
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.texts.words import counted
from cronhare.ports.inspection import ScheduleFacts, Severity

from .finding import Finding, named
from .work import count_of, lookup, named_of

_LEAVE_OUT = "leave `id` out of one of the files, and apply it: a number of its own is assigned"


def judge_sources(
    schedules: Sequence[ScheduleFacts], tasks: Sequence[Task] | None
) -> Iterator[Finding]:
    """Judge the enabled schedules by their sources; None if no jobs file was given."""
    enabled = [schedule for schedule in schedules if schedule.enabled and schedule.task]
    yield from _shared(enabled)
    yield from _same_numbers(enabled)
    yield from _unnamed(enabled)
    if tasks is not None:
        yield from _of_this_file(enabled, Catalog(tasks))


def _shared(schedules: Sequence[ScheduleFacts]) -> Iterator[Finding]:
    used = [(each.queue, each.source) for each in schedules if each.queue and each.source]
    for queue, sources in shared_queues(used).items():
        what = say_shared(queue, sources)
        cure = f"{ONE_FILE_EACH}; then `cronhare failed replay`"
        yield Finding(Severity.ERROR, "sources", f"{what[0].upper()}{what[1:]}", cure)


def _same_numbers(schedules: Sequence[ScheduleFacts]) -> Iterator[Finding]:
    """Name the task numbers that two files use, and the rows by hand that may mean either.

    Our own workers go by names; other programs know the number alone.
    """
    holders: defaultdict[TaskRef, dict[str, str]] = defaultdict(dict)
    by_hand: defaultdict[TaskRef, list[ScheduleFacts]] = defaultdict(list)
    for schedule in schedules:
        assert schedule.task is not None
        if schedule.source:
            holders[schedule.task].setdefault(schedule.source, schedule.name)
        else:
            by_hand[schedule.task].append(schedule)
    for ref, places in sorted(holders.items()):
        if len(places) > 1:
            where = " and ".join(f"{name} of {source}" for source, name in sorted(places.items()))
            rows = by_hand[ref]
            whose = f"rows by hand ({named_of(rows)})" if rows else "rows by hand"
            said = "and other programs' messages may mean either"
            what = f"{ref} is the task of {where}: {whose} {said}"
            yield Finding(Severity.WARNING, "sources", what, _LEAVE_OUT)


def _unnamed(schedules: Sequence[ScheduleFacts]) -> Iterator[Finding]:
    found = [
        schedule
        for schedule in schedules
        if schedule.source and not (schedule.task_name or schedule.topic)
    ]
    if found:
        sources = sorted({str(schedule.source) for schedule in found})
        whose = f"{counted(count_of(found), 'schedule')} of {named(sources)}"
        what = f"{whose} know their tasks by number"
        cure = "apply each file once more: that fills the names in, and is no edit"
        yield Finding(Severity.NOTE, "sources", what, cure)


def _of_this_file(schedules: Sequence[ScheduleFacts], catalog: Catalog) -> Iterator[Finding]:
    foreign: defaultdict[str, list[ScheduleFacts]] = defaultdict(list)
    for schedule in schedules:
        match lookup(schedule, catalog):
            case MissingTask(MissingKind.FOREIGN):
                foreign[str(schedule.source)].append(schedule)
            case MissingTask(MissingKind.CONTRADICTED, reason, cure):
                names = named_of([schedule])
                alone = schedule.count == 1
                runs = f"Schedule {names} runs" if alone else f"Schedules {names} run"
                what = f"{runs} neither: {reason}"
                yield Finding(Severity.WARNING, "sources", what, cure)
    # With schedules of its own a file is one of several. Without, it may be the wrong one.
    ours = any(schedule.source in catalog.sources for schedule in schedules if schedule.source)
    severity = Severity.NOTE if ours else Severity.WARNING
    for source, theirs in sorted(foreign.items()):
        whose = f"{counted(count_of(theirs), 'schedule')} of {source}, another file"
        what = f"{whose}: {named_of(theirs)}"
        cure = "fine if workers have that file; if it is this one under another name, apply this"
        yield Finding(severity, "sources", what, cure)
