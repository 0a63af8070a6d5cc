"""A task: a command that a worker may run. Tasks come from files, never from messages."""

import enum
import re
from collections.abc import Collection, Mapping
from datetime import timedelta
from hashlib import blake2b
from pathlib import PurePath
from typing import Self

import attrs
import msgspec

from .http_call import HttpCall
from .reminder import Reminder
from .retention import ClassRetention
from .task_policy import TaskPolicy

DEFAULT_TIMEOUT = timedelta(hours=1)

#: The smallest number that is assigned; people choose far smaller ones.
FIRST_ASSIGNED = 1_000_000_000

#: The largest number that a column such as `report_id` holds.
LARGEST_NUMBER = 2**31 - 1

#: The type of what schedulers run themselves. No worker and no message reaches it.
SYSTEM = "system"

#: The names of users that a task may run as.
USER_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,31}\Z"


#: A type of one's own: it only tells tasks apart, as a worker runs all of them alike.
TYPE_NAME = r"^[a-z][a-z0-9_-]{0,31}\Z"


class TaskType(enum.StrEnum):
    """The types that rows have columns for (S1.7 in docs/compatibility.md), and `event` (S3.3).

    Others are names that people choose, see `TYPE_NAME`.
    """

    REPORT = "report"
    WORKER = "worker"
    REMINDER = "reminder"
    EVENT = "event"


def fault_of_own_type(name: str) -> str | None:
    """Say why a type of one's own cannot have that name.

    >>> fault_of_own_type("import")
    >>> fault_of_own_type("Import").partition(", ")[0]
    'a type is named with a-z'
    """
    if name == SYSTEM:
        return f"{SYSTEM} is the type of what schedulers run themselves"
    if re.fullmatch(TYPE_NAME, name) is None:
        allowed = "a-z, 0-9, dash and underscore, at most 32, beginning with a letter"
        return f"a type is named with {allowed}"
    return None


class TaskRef(msgspec.Struct, frozen=True, order=True):
    """How a schedule or a message names a task: `report 25`.

    *type* is plain text, because a message may name an unknown type.
    """

    type: str
    id: int

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Read a reference as people write it; None if it is none.

        >>> TaskRef.read("report 25"), TaskRef.read("report")
        (TaskRef(type='report', id=25), None)
        """
        type_, _, number = text.rpartition(" ")
        is_number = number.isascii() and number.isdigit() and len(number) <= len(str(2**63))
        return cls(type_, int(number)) if type_ and is_number and int(number) < 2**63 else None

    def is_meant(
        self, asked: str | None, *, name: str | None, numbers: Collection[Self] = ()
    ) -> bool:
        """Tell whether who *asked* for a task, by its *name* or as `read` does, means this one.

        Where it has no name, it is one of the *numbers* that a task of the name asked for has. Who
        asked for none means any.
        """
        if asked is None or asked == name or TaskRef.read(asked) == self:
            return True
        return name is None and self in numbers

    @property
    def is_system(self) -> bool:
        """Whether it is the system's own: see `SYSTEM`."""
        return self.type == SYSTEM

    def __str__(self) -> str:
        return f"{self.type} {self.id}"


def assigned_number(source: str, name: str) -> int:
    """Number a task that has no id: rows written by hand and messages need a number.

    It depends on source and name alone: it is the same on any host, whatever other tasks come and
    go.

    >>> assigned_number("jobs.toml", "backup") == assigned_number("jobs.toml", "backup")
    True
    >>> assigned_number("jobs.toml", "backup") == assigned_number("user.toml", "backup")
    False
    """
    text = f"{source}\0{name}".encode(errors="surrogatepass")
    digest = blake2b(text, digest_size=8).digest()
    return FIRST_ASSIGNED + int.from_bytes(digest) % (LARGEST_NUMBER + 1 - FIRST_ASSIGNED)


@attrs.frozen(kw_only=True)
class Task:
    """A command, a request or a reminder with its limits, as a jobs file describes it.

    It has a *command*, or asks by *http*, or tells targets of a *reminder*.

    Runs name it by *source* and *name* (see `catalog.py`); rows and messages that cannot, by *ref*;
    events by one of its *topics*. It runs as *user*, or as the worker's own. *policy* is what its
    file says of how it is run, of its class *task_class* and for all tasks too; *timeout* is that
    policy's, or the default.
    """

    name: str
    ref: TaskRef
    command: tuple[str, ...] = ()
    http: HttpCall | None = None
    reminder: Reminder | None = None
    source: str | None = None
    timeout: timedelta = DEFAULT_TIMEOUT
    cwd: PurePath | None = None
    env: Mapping[str, str] = attrs.field(factory=dict[str, str])
    pass_env: tuple[str, ...] = ()
    user: str | None = None
    topics: tuple[str, ...] = ()
    task_class: str | None = None
    policy: TaskPolicy = attrs.field(factory=TaskPolicy)

    def __attrs_post_init__(self) -> None:
        given = (bool(self.command), self.http is not None, self.reminder is not None)
        if given.count(True) != 1:
            raise ValueError(f"task {self.name} is to have a command, a request or a reminder")

    @property
    def retention(self) -> ClassRetention | None:
        """What is kept of the runs of its class, where its file limits that."""
        if self.task_class is None or self.policy.keep is None:
            return None
        return ClassRetention(task_class=self.task_class, keep=self.policy.keep)

    @property
    def label(self) -> str:
        """The name in a child's log lines.

        >>> ref = TaskRef("report", 25)
        >>> Task(name="refresh-user-token", ref=ref, command=("true",)).label
        'Report:RefreshUserToken'
        """
        words = re.split(r"[^0-9A-Za-z]+", self.name)
        return f"{self.ref.type.capitalize()}:{''.join(w[:1].upper() + w[1:] for w in words)}"
