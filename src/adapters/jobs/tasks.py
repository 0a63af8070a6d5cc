"""From a `[tasks.NAME]` table to a task: a command, a request over HTTP, or a reminder."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, Literal

import attrs
from msgspec import Meta

from cronhare.domain.addresses.web import WebAddress
from cronhare.domain.events.targets import MOST_NAMED
from cronhare.domain.reading import Fault, Reads
from cronhare.domain.schedules.http_call import (
    METHODS,
    MOST_HEADERS,
    SUCCESS,
    Headers,
    HeadersFromEnv,
    HttpCall,
    Statuses,
)
from cronhare.domain.schedules.reminder import Reminder, faults_of_message
from cronhare.domain.schedules.task import (
    DEFAULT_TIMEOUT,
    TYPE_NAME,
    Task,
    TaskRef,
    TaskType,
    assigned_number,
    fault_of_own_type,
)
from cronhare.domain.schedules.topic import MOST_TOPICS
from cronhare.domain.texts.printable import echo

from .fields import Command, Id, Topic, User
from .policies import DefaultsTable, Policies

#: Fields that are for one kind of task alone.
_OF_A_COMMAND: Final = ("command", "cwd", "env", "pass_env", "user")
_OF_A_REQUEST: Final = ("method", "headers", "headers_env", "success")
_OF_A_REMINDER: Final = ("subject", "text")


def _own_type(name: str) -> str:
    if (problem := fault_of_own_type(name)) is not None:
        raise ValueError(problem)
    return name


if TYPE_CHECKING:
    _Url = WebAddress
else:
    _Url = Annotated[str, Reads(WebAddress.parse)]  # as it is written

_Topics = Annotated[
    list[Topic],
    Meta(
        min_length=1,
        max_length=MOST_TOPICS,
        description=f"a list of 1 to {MOST_TOPICS} topics: letters, digits, and . _ : / -",
    ),
]
_Remind = Annotated[
    list[str],
    Meta(
        min_length=1,
        max_length=MOST_NAMED,
        description=f"a list of 1 to {MOST_NAMED} names of [notify.NAME]",
    ),
]
_TypeName = Annotated[
    str,
    Meta(
        pattern=TYPE_NAME,
        description=f"one of {', '.join(TaskType)}, or a name of your own: a-z, 0-9, - and _, at "
        "most 32, beginning with a letter",
    ),
    Reads(_own_type),
]
_Method = Literal["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD"]


@attrs.frozen(kw_only=True)
class TaskTable(DefaultsTable):
    """`[tasks.NAME]`: what a worker may run. Without an *id* one is assigned."""

    id: Id | None = None
    command: Command | None = None
    url: _Url | None = None
    method: _Method | None = None
    headers: Headers | None = None
    headers_env: HeadersFromEnv | None = None
    success: Statuses = None
    remind: _Remind | None = None
    subject: str | None = None
    text: str | None = None
    topics: _Topics | None = None
    type: _TypeName | None = None
    class_: str | None = None
    user: User | None = None


def read_task(
    name: str, table: TaskTable, policies: Policies, source: str, faults: list[Fault]
) -> Task:
    """Make a task; its working directory is the file's folder, or relative to it."""
    tried = {fault.field for fault in faults}
    policy = policies.read(table, policies.of_class(table.class_, faults), faults)
    kind = table.type or (TaskType.WORKER if table.remind is None else TaskType.REMINDER).value
    reminder = http = None
    if table.remind is not None:
        reminder = _reminder(table, tried, faults)
    elif "remind" not in tried:
        faults += _out_of_place(table, _OF_A_REMINDER, "goes with remind; this task has none")
    if table.url is not None and reminder is None:
        http = _call(table, table.url, faults)
    elif reminder is None and "url" not in tried:
        faults += _out_of_place(table, _OF_A_REQUEST, "is for a url; this task has none")
    works = reminder or http or table.command
    if not works and not tried & {"command", "url", "remind"}:
        faults.append(Fault("command", "is missing; give a command, a url, or remind"))
    folder, given = policies.folder, policies.usual.under(table)
    return Task(
        name=name,
        source=source,
        ref=TaskRef(kind, table.id or assigned_number(source, name)),
        command=() if reminder or http else tuple(table.command or ("-",)),
        http=http,
        reminder=reminder,
        timeout=policy.timeout or DEFAULT_TIMEOUT,
        cwd=folder / given.cwd if given.cwd else folder,
        env=given.env,
        pass_env=given.passed,
        user=table.user,
        topics=tuple(dict.fromkeys(table.topics or ())),
        task_class=table.class_,
        policy=policy,
    )


def _out_of_place(table: TaskTable, fields: tuple[str, ...], why: str) -> Iterator[Fault]:
    """Find those of the *fields* that a table has and may not have."""
    return (Fault(field, why) for field in fields if getattr(table, field))


def _reminder(table: TaskTable, tried: set[str], faults: list[Fault]) -> Reminder:
    why, others = "is for another kind of task; this one reminds", (*_OF_A_COMMAND, "url")
    faults += _out_of_place(table, (*others, *_OF_A_REQUEST), why)
    subject, text = table.subject, table.text
    if text is None and "text" not in tried:
        faults.append(Fault("text", "is missing: what is to be said; params may say otherwise"))
    wrong = faults_of_message("-" if subject is None else subject, "-" if text is None else text)
    faults += [Fault(field, problem) for field, problem in wrong]
    return Reminder(
        targets=tuple(dict.fromkeys(table.remind or ())), subject=subject, text=text or "-"
    )


def _call(table: TaskTable, address: WebAddress, faults: list[Fault]) -> HttpCall:
    faults += _out_of_place(table, _OF_A_COMMAND, "is for a command; this task has a url")
    headers, from_env = table.headers or {}, table.headers_env or {}
    if (many := len(headers) + len(from_env)) > MOST_HEADERS:
        problem = f"{many} with those of headers_env: {MOST_HEADERS} are allowed"
        faults.append(Fault("headers", problem))
    names = [name.lower() for name in (*headers, *from_env)]
    twice = sorted({name for name in names if names.count(name) > 1})
    faults += [Fault("headers", f"{echo(name)} is given twice") for name in twice]
    return HttpCall(
        address=address,
        method=table.method or METHODS[0],
        headers=headers,
        headers_env=from_env,
        success=table.success or SUCCESS,
    )
