"""Reading a jobs file: the tasks that a worker may run, and the schedules that name them."""

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
import msgspec

from cronhare.adapters.plain_files import read_plain_file
from cronhare.adapters.toml import TooMuch, read_toml
from cronhare.domain.progress import OnProgress, passing, unwatched
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.schedules.calendars import CalendarDraft
from cronhare.domain.schedules.draft import Fault, ScheduleDraft
from cronhare.domain.schedules.jobs_file import (
    LARGEST_FILE,
    LONGEST_SOURCE,
    MOST_FAULTS,
    FileVersion,
)
from cronhare.domain.schedules.notify import Subscriptions
from cronhare.domain.schedules.schedule import SYSTEM_PREFIX
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.schedules.task_policy import BUILT_IN_CLASSES, TaskPolicy
from cronhare.domain.texts.echo import echo
from cronhare.domain.texts.hint import hint
from cronhare.domain.texts.listing import first_faults
from cronhare.domain.texts.names import NAME

from .calendars import read_calendar_table
from .ics import ReadingTime
from .limits import NO_INTEGER, beyond_toml
from .notify import ALL_FIELDS, SubscriptionReader
from .policies import Policies
from .schedules import read_draft
from .schema import (
    CalendarTable,
    ClassTable,
    DefaultsTable,
    FileTable,
    ScheduleTable,
    TaskTable,
)
from .tables import read_table
from .tasks import faults_of_surroundings, read_task


@attrs.frozen
class FileFault:
    """A fault and the table that it is in; empty for the file itself."""

    place: str
    fault: Fault

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.place, self.fault.field, self.fault.problem)))


class JobsFileInvalid(ValueError):
    """A jobs file that cannot be used, with all its *faults*."""

    def __init__(self, path: Path, faults: tuple[FileFault, ...]) -> None:
        """Keep the faults, and say them."""
        self.path = path
        self.faults = faults
        super().__init__(f"{path}: {'; '.join(map(str, faults))}")


@attrs.frozen(kw_only=True)
class JobsFile:
    """A jobs file that was read.

    The ledger keeps its schedules and tasks under *source*: the file's name, unless it gives
    another; *version* says which of it was read. *subscriptions* says who is told of their events.
    *on_start* names the enabled schedules to run whenever `cronhare up` starts, *on_boot* those to
    run once per boot of the host. *stamp* changes with the file.
    """

    path: Path
    tasks: tuple[Task, ...]
    drafts: tuple[ScheduleDraft, ...]
    on_start: tuple[str, ...]
    on_boot: tuple[str, ...]
    source: str
    version: FileVersion
    calendars: tuple[CalendarDraft, ...] = ()
    subscriptions: Subscriptions = attrs.field(factory=Subscriptions)
    stamp: tuple[int, ...] | None = None


def stamp_of(path: Path) -> tuple[int, ...] | None:
    """Give what differs once a file is written anew; None where it cannot be seen."""
    try:
        found = path.stat()
    except OSError:  # who reads it says so
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_jobs(path: Path, *, policy: RetryPolicy, on_progress: OnProgress = unwatched) -> JobsFile:
    """Read a jobs file. *policy* completes the retry policies that say only a part.

    *on_progress* hears of the schedules as they are read.

    Raises:
        JobsFileInvalid: with every fault at once.
        OSError: the file cannot be read.
    """
    stamp = stamp_of(path)  # before it is read: a later change is found
    file = read_jobs_text(_text(path), path, policy=policy, on_progress=on_progress)
    return attrs.evolve(file, stamp=stamp)


def read_jobs_text(
    text: str, path: Path, *, policy: RetryPolicy, on_progress: OnProgress = unwatched
) -> JobsFile:
    """Read the text of a jobs file that is at *path*, or is to be.

    Raises:
        JobsFileInvalid: with every fault at once.
    """
    content, found = _parse(text, path), list[Fault]()
    file = read_table(FileTable, content, found)
    source = _source(file.source, path, found)
    faults = [FileFault("", fault) for fault in found]
    policies = _policies(file, Policies(environment=policy, folder=path.resolve().parent), faults)
    tasks = dict(_tasks(file.tasks, policies, source, faults))
    known = None if "tasks" in {fault.field for fault in found} else tasks
    schedules = dict(_schedules(file.schedules, known, policies, faults, on_progress))
    calendars = tuple(_calendars(file.calendars, path.resolve().parent, faults))
    reader = SubscriptionReader(policies.folder, source)
    subscriptions = _subscriptions(reader, file, tasks, schedules)
    faults += [FileFault(place, fault) for place, fault in reader.faults]
    if faults:
        raise JobsFileInvalid(path, _capped(faults))
    enabled = [(draft.name, table) for draft, table in schedules.values() if draft.status]
    return JobsFile(
        path=path,
        tasks=tuple(tasks.values()),
        drafts=tuple(draft for draft, _ in schedules.values()),
        on_start=tuple(name for name, table in enabled if table.on_start),
        on_boot=tuple(name for name, table in enabled if table.on_boot),
        source=source,
        version=_version(source, content, subscriptions),
        calendars=calendars,
        subscriptions=subscriptions,
    )


def _subscriptions(
    reader: SubscriptionReader,
    file: FileTable,
    tasks: Mapping[str, Task],
    schedules: Mapping[str, tuple[ScheduleDraft, ScheduleTable]],
) -> Subscriptions:
    return reader.read(
        notify=file.notify,
        defaults=file.defaults,
        classes=file.classes,
        tasks={name: (file.tasks[name], task) for name, task in tasks.items()},
        schedules={
            name: (file.schedules[name], table.task or "") for name, (_, table) in schedules.items()
        },
    )


def _version(source: str, content: Mapping[str, Any], told: Subscriptions) -> FileVersion:
    """Sum up what a worker goes by: of schedules that is who is told of them, if anybody is."""
    schedules = {} if told.is_empty else content.get("schedules", {})
    fields = ("task", "ping", *ALL_FIELDS)
    events = {name: [each.get(field) for field in fields] for name, each in schedules.items()}
    summed = {**content, "schedules": events, "calendars": None}
    text = msgspec.json.encode(summed, order="deterministic")
    return FileVersion(source, hashlib.sha256(text).hexdigest()[:12])


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        content = read_toml(text)
    except TooMuch as error:
        raise _unreadable(path, str(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise _unreadable(path, f"cannot be read as TOML: {error}") from error
    except ValueError as error:  # `int` reads no number of thousands of digits
        raise _unreadable(path, f"has a number that {NO_INTEGER}") from error
    found = islice(beyond_toml(content), MOST_FAULTS + 1)  # one more says that there are others
    if faults := [_at(place, problem) for place, problem in found]:
        raise JobsFileInvalid(path, _capped(faults))
    return content


def _at(place: Sequence[str], problem: str) -> FileFault:
    """Make a fault of a table, `tasks.NAME` or `schedules.NAME`, and the field in it."""
    table, field = ("".join(part).removeprefix(".") for part in (place[:2], place[2:]))
    return FileFault(table, Fault(field, problem))


def _text(path: Path) -> str:
    content = read_plain_file(path, most=LARGEST_FILE)
    if len(content) > LARGEST_FILE:
        raise _unreadable(path, f"is larger than {LARGEST_FILE // 2**20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text: {error.reason} at byte {error.start}"
        raise _unreadable(path, problem) from error


def _unreadable(path: Path, problem: str) -> JobsFileInvalid:
    return JobsFileInvalid(path, (FileFault("", Fault("", problem)),))


def _capped(faults: Sequence[FileFault]) -> tuple[FileFault, ...]:
    return first_faults(faults, MOST_FAULTS, as_fault=lambda text: FileFault("", Fault("", text)))


def _source(given: str | None, path: Path, faults: list[Fault]) -> str:
    """Name the source: the file's own name serves if it is printable and fits the column."""
    name = given or path.name
    if not given and (len(name) > LONGEST_SOURCE or not name.isprintable()):
        allowed = 'give it another in its first line, such as source = "shop"'
        faults.append(
            Fault("source", f"the name of the file, {echo(name)}, cannot be one; {allowed}")
        )
    return name


def _policies(file: FileTable, outside: Policies, faults: list[FileFault]) -> Policies:
    """Read the defaults, then the classes over them."""
    found = list[Fault]()
    usual = read_table(DefaultsTable, file.defaults, found)
    defaults = outside.read(usual, TaskPolicy(), found)
    found += faults_of_surroundings(usual)
    faults += [FileFault("defaults", fault) for fault in found]
    policies = attrs.evolve(outside, defaults=defaults, usual=usual)
    classes = dict(BUILT_IN_CLASSES)
    for name, content in file.classes.items():
        if len(faults) > MOST_FAULTS:
            break
        found = _name_faults(name)
        table = read_table(ClassTable, content, found)
        built_in = BUILT_IN_CLASSES.get(name, TaskPolicy())
        classes[name] = policies.read(table, built_in.over(defaults), found)
        faults += [FileFault(f"classes.{name}", fault) for fault in found]
    return attrs.evolve(policies, classes=classes)


def _tasks(
    tables: Mapping[str, Any], policies: Policies, source: str, faults: list[FileFault]
) -> Iterator[tuple[str, Task]]:
    owners: dict[TaskRef, str] = {}
    listeners: dict[str, str] = {}
    for name, content in tables.items():
        if len(faults) > MOST_FAULTS:
            return
        found = _name_faults(name)
        table = read_table(TaskTable, content, found)
        identified = not {"", "id", "type"} & {fault.field for fault in found}
        task = read_task(name, table, policies, source, found)
        if identified and (owner := owners.setdefault(task.ref, name)) != name:
            found.append(Fault("id", f"{task.ref} is already the id of tasks.{owner}"))
        found += _heard_twice(task, listeners)
        faults += [FileFault(f"tasks.{name}", fault) for fault in found]
        yield name, task


def _heard_twice(task: Task, listeners: dict[str, str]) -> Iterator[Fault]:
    """Find the topics that another task listens to: a run has one end, and so one listener."""
    for topic in task.topics:
        if (other := listeners.setdefault(topic, task.name)) != task.name:
            yield Fault("topics", f"tasks.{other} listens to {topic} already; give each its own")


def _schedules(
    tables: Mapping[str, Any],
    tasks: Mapping[str, Task] | None,
    policies: Policies,
    faults: list[FileFault],
    on_progress: OnProgress,
) -> Iterator[tuple[str, tuple[ScheduleDraft, ScheduleTable]]]:
    for name, content in passing(tables.items(), on_progress):
        if len(faults) > MOST_FAULTS:
            return
        found = [*_name_faults(name), *_reserved(name)]
        table = read_table(ScheduleTable, content, found)
        task = _find(table, tasks, found)
        yield name, (read_draft(name, table, task, policies, found), table)
        faults += [FileFault(f"schedules.{name}", fault) for fault in found]


def _calendars(
    tables: Mapping[str, Any], folder: Path, faults: list[FileFault]
) -> Iterator[CalendarDraft]:
    # Recurring days of a file are written out for the years around this one.
    today, reading = datetime.now(UTC).date(), ReadingTime()
    for name, content in tables.items():
        if len(faults) > MOST_FAULTS:
            return
        found = _name_faults(name)
        table = read_table(CalendarTable, content, found)
        yield read_calendar_table(name, table, folder, today=today, reading=reading, faults=found)
        faults += [FileFault(f"calendars.{name}", fault) for fault in found]


def _find(
    table: ScheduleTable, tasks: Mapping[str, Task] | None, faults: list[Fault]
) -> Task | None:
    """Find the task that a schedule names; a fault that is known already is not added again.

    One with a topic names none.
    """
    name = table.task
    if name is None:
        if table.topic is None and not {"", "task", "topic"} & {fault.field for fault in faults}:
            faults.append(Fault("task", "is missing"))
        return None
    if tasks is not None and name in tasks:
        return tasks[name]
    if tasks is not None and not {"", "task"} & {fault.field for fault in faults}:
        there = hint(name, list(tasks)) if tasks else "there are no tasks"
        faults.append(Fault("task", f"there is no task {echo(name)}; {there}"))
    return None


def _name_faults(name: str) -> list[Fault]:
    if re.fullmatch(NAME, name):
        return []
    allowed = "a-z, 0-9, dot, dash and underscore, at most 63, beginning with a letter or digit"
    return [Fault("name", f"{echo(name)} is not allowed; allowed are {allowed}")]


def _reserved(name: str) -> list[Fault]:
    if not name.startswith(SYSTEM_PREFIX):
        return []
    return [Fault("name", f"{SYSTEM_PREFIX} is how the system's own schedules begin")]
