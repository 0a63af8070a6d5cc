"""The tasks of a jobs file, and the one rule that finds a run's task among them.

A run of a topic finds the task that listens to it, of whatever file: topics are for that (S3.2,
S3.3, C27 in docs/compatibility.md). A run from a jobs file names its task within that file, its
source; one of a row written by hand, or of an adopted table, has only the task's type and id. No
worker runs a task of another source: two files may use one name, or one number, for two tasks.
"""

import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Final

import attrs

from ..texts.words import MOST_LISTED, listed
from .task import Task, TaskRef, TaskType, assigned_number

#: Bytes; no jobs file that people write is larger. Another file may be, or have no end.
LARGEST_FILE = 8 * 2**20

#: Characters of the name under which the ledger knows a file.
LONGEST_SOURCE = 255

#: How deep tables and lists may be nested, in params above all.
DEEPEST = 64

#: Whole numbers in TOML have 64 bits.
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1


@attrs.frozen
class FileVersion:
    """A jobs file, by the *source* that the ledger knows, as a worker or a command has read it.

    Of two with one *digest* a worker has the same tasks and tells the same targets.
    """

    source: str
    digest: str


#: Characters of a topic.
LONGEST_TOPIC: Final = 255

#: How a topic is named.
TOPIC: Final = rf"^[A-Za-z0-9][A-Za-z0-9._:/-]{{0,{LONGEST_TOPIC - 1}}}\Z"

#: Topics that one task listens to.
MOST_TOPICS: Final = 100

ALLOWED: Final = (
    f"letters, digits, and . _ : / -, at most {LONGEST_TOPIC}, beginning with a letter or digit"
)

#: No jobs file has this for its source.
_NO_SOURCE: Final = ""


class NoListener(enum.StrEnum):
    """What becomes of an event to which nobody listens."""

    COMPLETE = "complete"
    FAIL = "fail"


def fault_of_topic(topic: str) -> str | None:
    return None if re.fullmatch(TOPIC, topic) else f"a topic is named with {ALLOWED}"


def ref_of_topic(topic: str) -> TaskRef:
    """Number a topic, for messages: they name their task by type and number alone."""
    return TaskRef(TaskType.EVENT.value, assigned_number(_NO_SOURCE, topic))


def say_unheard(name: str) -> str:
    """Say of an event that nobody heard it: the one line that is kept as its attempt's output."""
    return f"Nobody listens to {name}: completed"


#: What helps against a shared queue.
ONE_FILE_EACH = (
    "put their tasks and schedules into one file; or a file and an app may go together, --jobs … "
    '--app …; or give the schedules of each a queue of its own, queue = "…", and its workers that '
    "queue alone, --queues …"
)


class MissingKind(enum.Enum):
    """Why there is no task for a run."""

    UNKNOWN = "unknown"
    FOREIGN = "foreign"  # it is of another source
    UNHEARD = "unheard"  # no task listens to its topic
    CONTRADICTED = "contradicted"  # its name and its number are two tasks'


@attrs.frozen
class MissingTask:
    """This worker has no task for a run: why, and what helps."""

    kind: MissingKind
    reason: str
    cure: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.cure}"


class Catalog:
    """Finds a task by its source and name, or by its number where a run knows no name."""

    def __init__(self, tasks: Iterable[Task] = ()) -> None:
        """*tasks* are those of a jobs file; no two have one name or one number."""
        self._coming: Catalog | None = None
        self._keep(tasks)

    def _keep(self, tasks: Iterable[Task]) -> None:
        self._tasks = tuple(tasks)
        self.sources = frozenset(task.source for task in self._tasks)
        called = [(name, task) for task in self._tasks for name in (*task.aliases, task.name)]
        self._named = {(task.source, name): task for name, task in called}
        former = [
            (TaskRef(task.ref.type, assigned_number(task.source or "", alias)), task)
            for task in self._tasks
            for alias in task.aliases
        ]
        self._numbered = dict(former) | {task.ref: task for task in self._tasks}
        self._listening = {topic: task for task in self._tasks for topic in task.topics}

    @contextmanager
    def replacing(self, tasks: Iterable[Task]) -> Iterator[None]:
        """Replace the tasks at the end of the block: the file was read again.

        Within the block schedules are changed, and runs find the tasks of both files. An exception
        keeps the old tasks. Attempts that have begun are not touched.
        """
        self._coming = coming = Catalog(tasks)
        try:
            yield
            self._keep(coming)
        finally:
            self._coming = None

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks)

    def find(
        self,
        ref: TaskRef,
        *,
        source: str | None = None,
        name: str | None = None,
        topic: str | None = None,
    ) -> Task | MissingTask:
        """Find the task of a run by number, source and name, or what listens to its *topic*."""
        found, coming = self._find(ref, source, name, topic), self._coming
        if isinstance(found, MissingTask) and coming is not None:
            new = coming.find(ref, source=source, name=name, topic=topic)
            return new if isinstance(new, Task) else found
        return found

    def _find(
        self, ref: TaskRef, source: str | None, name: str | None, topic: str | None
    ) -> Task | MissingTask:
        if topic is not None and (listener := self._listening.get(topic)) is not None:
            return listener
        if source is not None and source not in self.sources:
            return self._foreign(ref, source, name)
        if topic is not None:
            return self._unheard(topic)
        numbered = self._numbered.get(ref)
        if name is None:
            return numbered or self._unknown(str(ref))
        named = self._named.get((source, name))
        if named is None:
            return self._unknown(f"{name} of {source}", name)
        if numbered is not None and numbered is not named:
            return _contradicted(named, numbered)
        return named

    def _foreign(self, ref: TaskRef, source: str, name: str | None) -> MissingTask:
        task = f"{name} ({ref})" if name else str(ref)
        if not self._tasks:
            reason = f"task {task} is of {source}, and this worker's jobs file or app has no tasks"
            return MissingTask(MissingKind.FOREIGN, reason, "name what has it, --jobs or --app")
        own = " and ".join(sorted(filter(None, self.sources))) or "no source"
        return MissingTask(
            MissingKind.FOREIGN,
            f"task {task} is of {source}, and this worker has the tasks of {own}",
            f"{ONE_FILE_EACH}; if it is the same file under another name, begin it with "
            f'source = "{source}"',
        )

    def _unheard(self, topic: str) -> MissingTask:
        known = ", ".join(sorted(self._listening)) or "none"
        return MissingTask(
            MissingKind.UNHEARD,
            f"no task of this worker listens to {topic}; they listen to: {known}",
            f'let one: topics = ["{topic}"]; or disable the schedule',
        )

    def _unknown(self, what: str, name: str | None = None) -> MissingTask:
        known = {task.name: f"{task.name} ({task.ref})" for task in self._tasks}
        close = get_close_matches(name or "", known, n=3) if len(known) > MOST_LISTED else []
        told = listed([known[each] for each in close or known], total=len(known))
        renamed = f', or, if it was renamed, the new one aliases=["{name}"],' if name else ""
        return MissingTask(
            MissingKind.UNKNOWN,
            f"this worker has no task {what}; it has: {told or 'none'}",
            f"give its jobs file or app that task{renamed} and reload it (systemctl reload, kill "
            "-HUP; under nohup restart it); or `cronhare failed discard` this run, and disable its "
            "schedule if that is still on",
        )


def reports_called(tasks: Iterable[Task], name: str) -> Sequence[Task]:
    """Find the reports of a name: that of the task, or as the log has it, `RefreshUserToken`.

    The name itself wins; of the other form there may be several.
    """
    reports = [task for task in tasks if task.ref.type == TaskType.REPORT]
    exact = [task for task in reports if task.name == name]
    return exact or [task for task in reports if task.label.partition(":")[2] == name]


def _contradicted(named: Task, numbered: Task) -> MissingTask:
    return MissingTask(
        MissingKind.CONTRADICTED,
        f"its schedule names two tasks of {named.source}: {named.name} ({named.ref}) and, by its "
        f"number, {numbered.name} ({numbered.ref})",
        "apply that file again; or set task_name to NULL in the row, and the number counts",
    )
