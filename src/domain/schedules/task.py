"""A task: a command, a request, a reminder or a function that a worker may run, and how it is run.

Tasks come from files, never from messages. Of what is said of how they run the nearest wins,
field by field: environment, the file's defaults, the task's class, the task, the schedule.
"""

import enum
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from hashlib import blake2b
from math import inf
from pathlib import PurePath
from typing import Annotated, Any, Final, Self, TypeAlias

import attrs
import msgspec
from msgspec import Meta

from ..reading import whole_number
from ..retries.outcome import ErrorClass, ErrorRules
from ..retries.policy import POLICIES, RetryPolicy, Strategy
from ..texts.words import NAME
from .work import HttpCall, PythonCall, Reminder

#: The most bytes of JSON for a task. A message has them as text within its own JSON, which at
#: worst doubles them: with this bound no message is too large for our own workers.
LARGEST_PARAMS = 100 * 1024


def fault_of_params(params: str) -> str | None:
    if 4 * len(params) <= LARGEST_PARAMS:  # no character has more bytes
        return None
    size = len(params.encode(errors="replace"))
    if size <= LARGEST_PARAMS:
        return None
    return f"{size} bytes of JSON, {LARGEST_PARAMS} are allowed"


def same_params(one: str, other: str) -> bool:
    """Tell whether params, given as JSON text, are the same however they were written.

    >>> same_params('{"a": 1, "b": 2}', '{"b":2,"a":1}'), same_params('{"a":1}', '{"a":true}')
    (True, False)
    """
    try:
        first, second = (
            msgspec.json.encode(msgspec.json.decode(text), order="sorted") for text in (one, other)
        )
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return one == other
    return first == second


def force_instant(params: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Make a report run in the foreground, so that its errors come back.

    Where `options_interface.delivery` exists, its `instant` becomes true; in a copy.
    """
    match params:
        case {"options_interface": {"delivery": dict() as delivery} as options}:
            instant = {**options, "delivery": {**delivery, "instant": True}}
            return {**params, "options_interface": instant}
    return params


#: How many runs may be kept. What is kept of a class must be counted in memory.
KEPT: Final = range(100_000 + 1)

#: What has ended so lately is kept, however much there is: late copies of its message are known.
LATELY: Final = timedelta(hours=1)

_Count: TypeAlias = Annotated[int, whole_number(KEPT)]


@attrs.frozen(kw_only=True)
class Keep:
    """How many of what succeeded, and of what failed or was quarantined; None for no such limit."""

    done: _Count | None = None
    failed: _Count | None = None

    def over(self, farther: "Keep | None") -> "Keep":
        """Give what counts where *farther* is the retention one step away."""
        other = farther or Keep()
        return Keep(
            done=other.done if self.done is None else self.done,
            failed=other.failed if self.failed is None else self.failed,
        )


@attrs.frozen(kw_only=True)
class ClassRetention(Keep):
    """What is kept of a class of tasks (S2.3 in docs/compatibility.md), as rows of schedules say.

    A class is one of a jobs file: two files may use one name for two of them.
    """

    class_: Annotated[str, Meta(pattern=rf"^{NAME}\Z", description="a name of a class")]

    @property
    def keep(self) -> Keep:
        return Keep(done=self.done, failed=self.failed)

    def written(self) -> dict[str, Any]:
        return {"class": self.class_, "done": self.done, "failed": self.failed}


def by_class(
    schedules: Iterable[tuple[int, str | None, ClassRetention]],
) -> Sequence[tuple[Sequence[int], Keep]]:
    """Put schedules, each with its id and its source, together by their classes.

    Where rows of one class disagree, as somebody has edited one, the most is kept.
    """
    classes = defaultdict[tuple[str | None, str], dict[int, Keep]](dict)
    for id_, source, retention in schedules:
        classes[source, retention.class_][id_] = retention
    return [
        (
            [*those],
            Keep(
                done=max((keep.done for keep in those.values()), key=_no_limit_last),
                failed=max((keep.failed for keep in those.values()), key=_no_limit_last),
            ),
        )
        for those in classes.values()
    ]


def _no_limit_last(limit: int | None) -> float:
    return inf if limit is None else limit


@attrs.frozen(kw_only=True)
class TaskPolicy:
    """What is said of how tasks are run; what is None is not said."""

    retry: RetryPolicy | None = None
    timeout: timedelta | None = None
    errors: ErrorRules = attrs.field(factory=dict[str, ErrorClass])
    strategy: Strategy | None = None
    keep: Keep | None = None

    def over(self, farther: "TaskPolicy") -> "TaskPolicy":
        """Give what counts where *farther* is the policy one step away."""
        return TaskPolicy(
            retry=self.retry or farther.retry,
            timeout=self.timeout or farther.timeout,
            errors={**farther.errors, **self.errors},
            strategy=self.strategy or farther.strategy,
            keep=farther.keep if self.keep is None else self.keep.over(farther.keep),
        )


#: Classes that need no declaration: S2.3, S0.13 and C37 in docs/compatibility.md. A file that
#: declares one changes what it names of it.
BUILT_IN_CLASSES: Final[Mapping[str, TaskPolicy]] = {
    "emails": TaskPolicy(retry=POLICIES["emails"], keep=Keep(done=100, failed=500)),
    "webhooks": TaskPolicy(retry=POLICIES["webhooks"], keep=Keep(done=500, failed=1_000)),
    "payments": TaskPolicy(retry=POLICIES["payments"], keep=Keep(done=1_000, failed=5_000)),
    "fast-failing": TaskPolicy(retry=POLICIES["fast-failing"]),
    "slow-recovering": TaskPolicy(retry=POLICIES["slow-recovering"]),
    "lease-style": TaskPolicy(retry=POLICIES["lease-style"], timeout=timedelta(seconds=300)),
}


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


#: The column, and the field of a request, that numbers a task, by its type. Tasks of other types
#: are named by `task_type` and `task_id`; a row has one of all these ways.
COLUMN_OF_TYPE: Final = {str(kind): f"{kind}_id" for kind in (*TaskType, SYSTEM)}


def fault_of_own_type(name: str) -> str | None:
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

    @property
    def is_system(self) -> bool:
        return self.type == SYSTEM

    def __str__(self) -> str:
        return f"{self.type} {self.id}"


def assigned_number(source: str, name: str) -> int:
    """Number a task that has no id by source and name alone: the same on any host."""
    text = f"{source}\0{name}".encode(errors="surrogatepass")
    digest = blake2b(text, digest_size=8).digest()
    return FIRST_ASSIGNED + int.from_bytes(digest) % (LARGEST_NUMBER + 1 - FIRST_ASSIGNED)


@attrs.frozen(kw_only=True)
class Task:
    """A command, a request, a reminder or a function with its limits, as a jobs file describes it.

    It has a *command*, or asks by *http*, or tells targets of a *reminder*, or calls a function in
    *python*.

    Runs name it by *source* and *name* (see `catalog.py`), or by one of the *aliases* that it had
    before; rows and messages that cannot, by *ref*; events by one of its *topics*. It runs as
    *user*, or as the worker's own. *policy* is what its file says of how it is run, of its class
    *task_class* and for all tasks too; *timeout* is that policy's, or the default.
    """

    name: str
    ref: TaskRef
    command: tuple[str, ...] = ()
    http: HttpCall | None = None
    reminder: Reminder | None = None
    python: PythonCall | None = None
    aliases: tuple[str, ...] = ()
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
        given = (self.command or None, self.http, self.reminder, self.python)
        if given.count(None) != len(given) - 1:
            raise ValueError(f"task {self.name} is to have one kind of work")

    @property
    def retention(self) -> ClassRetention | None:
        if self.task_class is None or self.policy.keep is None:
            return None
        return ClassRetention(class_=self.task_class, **attrs.asdict(self.policy.keep))

    @property
    def label(self) -> str:
        """The name in a child's log lines.

        >>> ref = TaskRef("report", 25)
        >>> Task(name="refresh-user-token", ref=ref, command=("true",)).label
        'Report:RefreshUserToken'
        """
        words = re.split(r"[^0-9A-Za-z]+", self.name)
        return f"{self.ref.type.capitalize()}:{''.join(w[:1].upper() + w[1:] for w in words)}"
