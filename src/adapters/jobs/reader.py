"""Reading a jobs file: the tasks that a worker may run, and the schedules that name them.

What an app says is read here as well: it has the same tables (apps.py).
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeVar

import attrs
import msgspec
from msgspec import Meta

from cronhare.adapters.addresses import LedgerFile, LedgerServer
from cronhare.domain.events.targets import MOST_PINGS, MOST_TARGETS, Subscriptions, Target
from cronhare.domain.progress import OnProgress, passing, unwatched
from cronhare.domain.reading import MOST_FAULTS, Fault, read_table
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.catalog import (
    DEEPEST,
    LARGEST_FILE,
    LARGEST_INTEGER,
    LONGEST_SOURCE,
    SMALLEST_INTEGER,
    FileVersion,
)
from cronhare.domain.schedules.conditions import CalendarDraft
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import SYSTEM_PREFIX
from cronhare.domain.schedules.task import BUILT_IN_CLASSES, Task, TaskPolicy, TaskRef
from cronhare.domain.texts.printable import echo, shortened
from cronhare.domain.texts.words import NAME, first_faults, hint
from cronhare.domain.topology import fault_of_queue

from .calendars import CalendarTable, read_calendar_table
from .schedules import QueueName, ScheduleTable, faults_of_table, read_draft
from .targets import EventsTable, NotifyTable, Subscribers, read_target
from .tasks import ClassTable, DefaultsTable, Policies, TaskTable, read_task

NO_INTEGER = "is no whole number of 64 bits, which are from -2^63 to 2^63-1"

#: Characters of a name in a path. It is said again with every fault within: a long one, of a few
#: bytes' worth of values each, would make gigabytes of a file or a body.
LONGEST_STEP = 100

#: Where a value is: the names of its tables and its numbers in lists, as in `tasks.a.env[0]`.
Place = tuple[str, ...]


def beyond_toml(content: dict[str, object]) -> Iterator[tuple[Place, str]]:
    """Yield the path of every value beyond the limits, and what is wrong.

    Whoever has read enough faults need not read on.
    """
    return _beyond(content, [])


def _beyond(value: object, path: list[str | int]) -> Iterator[tuple[Place, str]]:
    """Look into a value; *path* is the way to it, which is as long as tables may be deep."""
    if len(path) > DEEPEST:
        problem = f"lies in more than {DEEPEST} tables and lists, one in another"
        yield tuple(map(_step, path)), problem
    elif isinstance(value, int) and not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        yield tuple(map(_step, path)), NO_INTEGER
    elif isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            path.append(name)
            yield from _beyond(inner, path)
            path.pop()


def _step(name: str | int) -> str:
    return f"[{name}]" if isinstance(name, int) else f".{shortened(name, LONGEST_STEP)}"


T = TypeVar("T", bound=attrs.AttrsInstance)

Source = Annotated[str, Meta(pattern=rf"^{NAME}\Z", description="a name of a-z, 0-9 and . _ -")]


@attrs.frozen(kw_only=True)
class FileTable:
    """The whole file. *source* is the name under which the ledger remembers it.

    *queues* are those into which programs enqueue, beside those that its schedules name.
    """

    source: Source | None = None
    queues: list[QueueName] = attrs.field(factory=list[QueueName])
    defaults: Any = attrs.field(factory=dict[str, Any])
    classes: dict[str, Any] = attrs.field(factory=dict[str, Any])
    notify: dict[str, Any] = attrs.field(factory=dict[str, Any])
    tasks: dict[str, Any] = attrs.field(factory=dict[str, Any])
    schedules: dict[str, Any] = attrs.field(factory=dict[str, Any])
    calendars: dict[str, Any] = attrs.field(factory=dict[str, Any])


@attrs.frozen
class FileFault:
    """A fault and the table that it is in; empty for the file itself."""

    place: str
    fault: Fault

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.place, self.fault.field, self.fault.problem)))


class JobsFileInvalid(ValueError):
    """A jobs file that cannot be used, with all its *faults*, or the first of very many.

    Likewise an app.
    """

    def __init__(self, path: Path | str, faults: Sequence[FileFault]) -> None:
        self.path = path
        self.faults = first_faults(faults, MOST_FAULTS, as_fault=_of_file)
        super().__init__(f"{path}: {'; '.join(map(str, self.faults))}")


def _of_file(problem: str) -> FileFault:
    return FileFault("", Fault("", problem))


@attrs.frozen(kw_only=True)
class JobsFile:
    """A jobs file that was read, or an app, which says the same.

    The ledger keeps its schedules and tasks under *source*: the file's name, unless it gives
    another; *version* says which of it was read. *subscriptions* says who is told of their events.
    *on_start* names the enabled schedules to run whenever `cronhare up` starts, *on_boot* those to
    run once per boot of the host. It is made of *files*, with which *stamp* changes. An app may
    say into which *ledger* its programs enqueue.
    """

    path: Path | str
    tasks: tuple[Task, ...]
    drafts: tuple[ScheduleDraft, ...]
    on_start: tuple[str, ...]
    on_boot: tuple[str, ...]
    source: str
    version: FileVersion
    queues: tuple[str, ...] = ()
    calendars: tuple[CalendarDraft, ...] = ()
    subscriptions: Subscriptions = attrs.field(factory=Subscriptions)
    files: tuple[Path, ...] = ()
    stamp: tuple[int, ...] | None = None
    ledger: LedgerFile | LedgerServer | None = None


def stamp_of(*files: Path) -> tuple[int, ...] | None:
    """Give what differs once one of the files is written anew; None where it cannot be seen."""
    try:
        found = [path.stat() for path in files]
    except OSError:  # who reads it says so
        return None
    return tuple(n for each in found for n in (each.st_mtime_ns, each.st_size, each.st_ino))


def read_jobs(path: Path, *, policy: RetryPolicy, on_progress: OnProgress = unwatched) -> JobsFile:
    """Read a jobs file. *policy* completes the retry policies that say only a part.

    *on_progress* hears of the schedules as they are read.

    Raises:
        JobsFileInvalid: with every fault at once.
        OSError: the file cannot be read.
    """
    stamp = stamp_of(path)  # before it is read: a later change is found
    file = read_jobs_text(_text(path), path, policy=policy, on_progress=on_progress)
    return attrs.evolve(file, files=(path,), stamp=stamp)


def read_jobs_text(
    text: str, path: Path, *, policy: RetryPolicy, on_progress: OnProgress = unwatched
) -> JobsFile:
    """Read the text of a jobs file that is at *path*, or is to be.

    Raises:
        JobsFileInvalid: with every fault at once.
    """
    return read_content(
        _parse(text, path),
        path,
        folder=path.resolve().parent,
        policy=policy,
        on_progress=on_progress,
    )


def read_content(
    content: dict[str, Any],
    path: Path | str,
    *,
    folder: Path,
    policy: RetryPolicy,
    on_progress: OnProgress = unwatched,
) -> JobsFile:
    """Read the tables of a jobs file, whose paths begin in a *folder*.

    Raises:
        JobsFileInvalid: with every fault at once.
    """
    beyond = islice(beyond_toml(content), MOST_FAULTS + 1)  # one more says that there are others
    if unreadable := [_at(place, problem) for place, problem in beyond]:
        raise JobsFileInvalid(path, unreadable)
    found = list[Fault]()
    file = read_table(FileTable, content, found)
    own = path.name if isinstance(path, Path) else path
    source = _source(file.source, own, found)
    found += [Fault("queues", why) for name in file.queues if (why := fault_of_queue(name))]
    faults = [FileFault("", fault) for fault in found]
    reading = _Reading(folder=folder, source=source, faults=faults)
    events = Subscribers(folder=folder, targets=dict(reading.targets(file.notify)))
    policies = reading.policies(file, policy, events)
    tasks = dict(reading.tasks(file.tasks, policies, events))
    # Where no table of tasks could be read, no schedule's is missed.
    known = None if "tasks" in {fault.field for fault in found} else tasks
    schedules = dict(reading.schedules(file.schedules, known, policies, events, on_progress))
    calendars = tuple(reading.calendars(file.calendars))
    if len(events.pings) > MOST_PINGS:
        problem = f"is given by more than {MOST_PINGS} schedules"
        reading.faults.append(FileFault("", Fault("ping", problem)))
    if reading.faults:
        raise JobsFileInvalid(path, reading.faults)
    enabled = [(draft.name, table) for draft, table in schedules.values() if draft.status]
    task_of = {name: table.task or "" for name, (_, table) in schedules.items()}
    subscriptions = events.subscriptions(source, tasks, task_of)
    return JobsFile(
        path=path,
        tasks=tuple(tasks.values()),
        drafts=tuple(draft for draft, _ in schedules.values()),
        on_start=tuple(name for name, table in enabled if table.on_start),
        on_boot=tuple(name for name, table in enabled if table.on_boot),
        source=source,
        version=_version(source, content, subscriptions),
        queues=tuple(file.queues),
        calendars=calendars,
        subscriptions=subscriptions,
    )


def _version(source: str, content: Mapping[str, Any], told: Subscriptions) -> FileVersion:
    """Sum up what a worker goes by: of schedules that is who is told of them, if anybody is."""
    schedules = {} if told.is_empty else content.get("schedules", {})
    fields = ("task", "ping", *attrs.fields_dict(EventsTable))
    events = {name: [each.get(field) for field in fields] for name, each in schedules.items()}
    summed = {**content, "schedules": events, "calendars": None}
    text = msgspec.json.encode(summed, order="deterministic")
    return FileVersion(source, hashlib.sha256(text).hexdigest()[:12])


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        problem = f"has more than {DEEPEST} tables and lists in one another"
        raise unreadable(path, problem) from error
    except tomllib.TOMLDecodeError as error:
        raise unreadable(path, f"cannot be read as TOML: {error}") from error
    except ValueError as error:  # `int` reads no number of thousands of digits
        raise unreadable(path, f"has a number that {NO_INTEGER}") from error


def _at(place: Sequence[str], problem: str) -> FileFault:
    table, field = ("".join(part).removeprefix(".") for part in (place[:2], place[2:]))
    return FileFault(table, Fault(field, problem))


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise unreadable(path, f"is larger than {LARGEST_FILE // 2**20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text: {error.reason} at byte {error.start}"
        raise unreadable(path, problem) from error


def unreadable(path: Path | str, problem: str) -> JobsFileInvalid:
    return JobsFileInvalid(path, [_of_file(problem)])


def _source(given: str | None, own: str, faults: list[Fault]) -> str:
    """Name the source: the file's *own* name serves if it is printable and fits the column."""
    name = given or own
    if not given and (len(name) > LONGEST_SOURCE or not name.isprintable()):
        allowed = 'give it another in its first line, such as source = "shop"'
        faults.append(
            Fault("source", f"the name of the file, {echo(name)}, cannot be one; {allowed}")
        )
    return name


@attrs.define(kw_only=True)
class _Reading:
    """Reads the tables of one file; *faults* has what was wrong so far."""

    folder: Path
    source: str
    faults: list[FileFault]

    def targets(self, tables: Mapping[str, Any]) -> Iterator[tuple[str, Target]]:
        if len(tables) > MOST_TARGETS:
            problem = f"has more than {MOST_TARGETS} targets"
            self.faults.append(FileFault("", Fault("notify", problem)))
            return
        for name, table, found in self._each("notify", NotifyTable, tables):
            yield name, read_target(name, table, self.folder, found)

    def policies(self, file: FileTable, environment: RetryPolicy, events: Subscribers) -> Policies:
        found, outside = list[Fault](), Policies(environment=environment, folder=self.folder)
        usual = read_table(DefaultsTable, file.defaults, found)
        defaults = outside.read(usual, TaskPolicy(), found)
        events.read_defaults(usual, found)
        self.faults += [FileFault("defaults", fault) for fault in found]
        policies = attrs.evolve(outside, defaults=defaults, usual=usual)
        classes = dict(BUILT_IN_CLASSES)
        for name, table, found in self._each("classes", ClassTable, file.classes):
            built_in = BUILT_IN_CLASSES.get(name, TaskPolicy())
            classes[name] = policies.read(table, built_in.over(defaults), found)
            events.read_class(name, table, found)
        return attrs.evolve(policies, classes=classes)

    def tasks(
        self, tables: Mapping[str, Any], policies: Policies, events: Subscribers
    ) -> Iterator[tuple[str, Task]]:
        owners: dict[TaskRef, str] = {}
        names: dict[str, str] = {name: name for name in tables}
        listeners: dict[str, str] = {}
        for name, table, found in self._each("tasks", TaskTable, tables):
            identified = not {"", "id", "type"} & {fault.field for fault in found}
            task = read_task(name, table, policies, self.source, found)
            if identified and (owner := owners.setdefault(task.ref, name)) != name:
                found.append(Fault("id", f"{task.ref} is already the id of tasks.{owner}"))
            for alias in task.aliases:
                if (other := names.setdefault(alias, name)) != name:
                    found.append(Fault("aliases", f"{alias} is a name of tasks.{other} already"))
            for topic in task.topics:  # a run has one end, and so one listener
                if (other := listeners.setdefault(topic, name)) != name:
                    problem = f"tasks.{other} listens to {topic} already; give each its own"
                    found.append(Fault("topics", problem))
            events.read_task(task, table, found)
            yield name, task

    def schedules(
        self,
        tables: Mapping[str, Any],
        tasks: Mapping[str, Task] | None,
        policies: Policies,
        events: Subscribers,
        on_progress: OnProgress,
    ) -> Iterator[tuple[str, tuple[ScheduleDraft, ScheduleTable]]]:
        for name, table, found in self._each("schedules", ScheduleTable, tables, on_progress):
            if name.startswith(SYSTEM_PREFIX):
                problem = f"{SYSTEM_PREFIX} is how the system's own schedules begin"
                found.append(Fault("name", problem))
            task = _find(table, tasks, found)
            found.extend(faults_of_table(table, {fault.field for fault in found}))
            draft = read_draft(name, table, task, policies, found)
            events.read_schedule(name, table, table.ping, task, found)
            yield name, (draft, table)

    def calendars(self, tables: Mapping[str, Any]) -> Iterator[CalendarDraft]:
        # Recurring days of a file are written out for the years around this one.
        today = datetime.now(UTC).date()
        for name, table, found in self._each("calendars", CalendarTable, tables):
            yield read_calendar_table(name, table, self.folder, today=today, faults=found)

    def _each(
        self,
        section: str,
        kind: type[T],
        tables: Mapping[str, Any],
        on_progress: OnProgress = unwatched,
    ) -> Iterator[tuple[str, T, list[Fault]]]:
        for name, content in passing(tables.items(), on_progress):
            if len(self.faults) > MOST_FAULTS:
                return
            # A task's own schedule, for runs that are enqueued: no other can have such a name.
            task = content.get("task") if isinstance(content, dict) else None
            is_own = section == "schedules" and name == f"{self.source}:{task}"
            found = [] if is_own else _name_faults(name)
            table = read_table(kind, content, found)
            yield name, table, found
            self.faults += [FileFault(f"{section}.{name}", fault) for fault in found]


def _find(
    table: ScheduleTable, tasks: Mapping[str, Task] | None, faults: list[Fault]
) -> Task | None:
    name, tried = table.task, {fault.field for fault in faults}
    if tasks is not None and name is not None and name in tasks:
        return tasks[name]
    if name is None and table.topic is None and not {"", "task", "topic"} & tried:
        faults.append(Fault("task", "is missing"))
    elif name is not None and tasks is not None:
        there = hint(name, list(tasks)) if tasks else "there are no tasks"
        faults.append(Fault("task", f"there is no task {echo(name)}; {there}"))
    return None


def _name_faults(name: str) -> list[Fault]:
    if re.fullmatch(NAME, name):
        return []
    allowed = "a-z, 0-9, dot, dash and underscore, at most 63, beginning with a letter or digit"
    return [Fault("name", f"{echo(name)} is not allowed; allowed are {allowed}")]
