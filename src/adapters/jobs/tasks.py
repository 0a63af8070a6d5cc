"""`[defaults]`, `[classes.NAME]` and `[tasks.NAME]`: how tasks are run, and what they are."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import attrs
from msgspec import Meta

from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.targets import MOST_NAMED
from cronhare.domain.reading import Fault, Reads, read_whole, whole_number
from cronhare.domain.retries.outcome import ErrorClass, read_error_rules
from cronhare.domain.retries.policy import (
    POLICIES,
    RetryPolicy,
    RetryPolicyInvalid,
    Strategy,
    read_policy,
)
from cronhare.domain.schedules.catalog import MOST_TOPICS
from cronhare.domain.schedules.task import (
    BUILT_IN_CLASSES,
    DEFAULT_TIMEOUT,
    TYPE_NAME,
    Keep,
    Task,
    TaskPolicy,
    TaskRef,
    TaskType,
    assigned_number,
    fault_of_own_type,
)
from cronhare.domain.schedules.work import (
    METHODS,
    MOST_HEADERS,
    PLACE,
    SUCCESS,
    Executor,
    Headers,
    HeadersFromEnv,
    HttpCall,
    PythonCall,
    Reminder,
    Statuses,
    faults_of_message,
)
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import NAME, hint

from .fields import Command, Id, SizeAsWritten, SomeTime, Topic, User
from .targets import EventsTable


def _variables(variables: dict[str, str]) -> dict[str, str]:
    for name in variables:
        if not name or "=" in name:
            raise ValueError(f"{name!r} cannot name a variable")
    return variables


@attrs.frozen(kw_only=True)
class PolicyTable(EventsTable):
    """How tasks are run where nothing nearer says it."""

    retry: Any = None  # it completes one farther away
    timeout: SomeTime | None = None
    errors: Annotated[Any, Reads(read_error_rules)] = attrs.field(factory=dict[str, ErrorClass])
    strategy: str | None = None


@attrs.frozen(kw_only=True)
class ClassTable(PolicyTable):
    """`[classes.NAME]`: how the tasks of a class are run, and how much of their past is kept."""

    keep: Annotated[Any, Reads(partial(read_whole, Keep))] = None


@attrs.frozen(kw_only=True)
class DefaultsTable(PolicyTable):
    """`[defaults]`: a policy, and where and with which variables commands run."""

    cwd: str | None = None
    env: Annotated[dict[str, str], Reads(_variables)] = attrs.field(factory=dict[str, str])
    pass_env: list[str] | None = None

    def under(self, nearer: "DefaultsTable") -> "DefaultsTable":
        """Take from *nearer* what it says; its variables go before ours, one by one.

        A value in `env` would win over a name in `pass_env`, so ours goes where it is passed.
        """
        ours = {name: text for name, text in self.env.items() if name not in nearer.passed}
        return DefaultsTable(
            cwd=nearer.cwd or self.cwd,
            env=ours | nearer.env,
            pass_env=self.pass_env if nearer.pass_env is None else nearer.pass_env,
        )

    @property
    def passed(self) -> tuple[str, ...]:
        return tuple(self.pass_env or ())


@attrs.frozen(kw_only=True)
class Policies:
    """What a file says of how its tasks are run.

    *environment* completes retry policies that say only a part, *folder* is the file's, and *usual*
    has what `[defaults]` says of a command's surroundings.
    """

    environment: RetryPolicy
    folder: Path
    defaults: TaskPolicy = attrs.field(factory=TaskPolicy)
    usual: DefaultsTable = attrs.field(factory=DefaultsTable)
    classes: Mapping[str, TaskPolicy] = BUILT_IN_CLASSES

    #: The retry policies that have names: those of classes, too.
    presets: Mapping[str, RetryPolicy] = attrs.field(init=False)

    @presets.default
    def _presets(self) -> Mapping[str, RetryPolicy]:
        of_classes = {name: each.retry for name, each in self.classes.items()}
        return POLICIES | {name: policy for name, policy in of_classes.items() if policy}

    def read(self, table: PolicyTable, farther: TaskPolicy, faults: list[Fault]) -> TaskPolicy:
        own = TaskPolicy(
            retry=self.retry(table.retry, farther.retry, faults),
            timeout=table.timeout,
            errors=table.errors,
            strategy=self._strategy(table.strategy, faults),
            keep=table.keep if isinstance(table, ClassTable) else None,
        )
        return own.over(farther)

    def retry(
        self, value: object, farther: RetryPolicy | None, faults: list[Fault]
    ) -> RetryPolicy | None:
        """Read a retry policy, completed by the one *farther* away; without a value that counts."""
        if value is None:
            return farther
        try:
            return read_policy(value, default=farther or self.environment, presets=self.presets)
        except RetryPolicyInvalid as error:
            faults += [Fault("retry", f"{error.code}: {fault}") for fault in error.faults]
            return None

    def of_class(self, name: str | None, faults: list[Fault]) -> TaskPolicy:
        if name is None:
            return self.defaults
        if name not in self.classes:
            there = hint(name, list(self.classes))
            faults.append(Fault("class", f"there is no class {echo(name)}; {there}"))
            return self.defaults
        return self.classes[name].over(self.defaults)

    def _strategy(self, text: str | None, faults: list[Fault]) -> Strategy | None:
        if text is None:
            return None
        try:
            return Strategy.parse(text, folder=self.folder)
        except ValueError as error:
            faults.append(Fault("strategy", str(error)))
            return None


#: Fields that are for one kind of task alone.
_OF_A_COMMAND: Final = ("command", "cwd", "env", "pass_env", "user")
_OF_A_REQUEST: Final = ("method", "headers", "headers_env", "success")
_OF_A_REMINDER: Final = ("subject", "text")
_OF_A_FUNCTION: Final = ("executor", "per_child", "memory", "context")


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
_Place = Annotated[str, Meta(pattern=PLACE, description="module:app, such as shop.jobs:app")]
_Name = Annotated[str, Meta(pattern=rf"^{NAME}\Z", description="a name of a task")]
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
    python: _Place | None = None
    executor: Executor | None = None
    per_child: Annotated[int, whole_number(range(1, 1_000_000_001))] | None = None
    memory: SizeAsWritten = None
    context: bool = False
    aliases: list[_Name] = attrs.field(factory=list[str])
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
    python = _function(table, policies.folder, faults) if not (reminder or http) else None
    works = reminder or http or python or table.command
    if not works and not tried & {"command", "url", "remind", "python"}:
        faults.append(Fault("command", "is missing; give a command, a url, python, or remind"))
    folder, given = policies.folder, policies.usual.under(table)
    return Task(
        name=name,
        source=source,
        ref=TaskRef(kind, table.id or assigned_number(source, name)),
        command=() if reminder or http or python else tuple(table.command or ("-",)),
        http=http,
        reminder=reminder,
        python=python,
        aliases=tuple(table.aliases),
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
    return (Fault(field, why) for field in fields if getattr(table, field))


def _reminder(table: TaskTable, tried: set[str], faults: list[Fault]) -> Reminder:
    why = "is for another kind of task; this one reminds"
    others = (*_OF_A_COMMAND, "url", "python", *_OF_A_FUNCTION)
    faults += _out_of_place(table, (*others, *_OF_A_REQUEST), why)
    subject, text = table.subject, table.text
    if text is None and "text" not in tried:
        faults.append(Fault("text", "is missing: what is to be said; params may say otherwise"))
    faults += faults_of_message("-" if subject is None else subject, "-" if text is None else text)
    return Reminder(
        targets=tuple(dict.fromkeys(table.remind or ())), subject=subject, text=text or "-"
    )


def _function(table: TaskTable, folder: Path, faults: list[Fault]) -> PythonCall | None:
    if table.python is None:
        faults += _out_of_place(table, _OF_A_FUNCTION, "is for a function; this task has no python")
        return None
    faults += _out_of_place(table, ("command",), "is for another kind of task; this has python")
    executor = table.executor or Executor.FORK
    if table.per_child is not None and executor not in {Executor.POOL, Executor.ASYNC}:
        faults.append(Fault("per_child", f"is for pool and async; {executor} uses no child again"))
    return PythonCall(
        app=table.python,
        executor=executor,
        per_child=table.per_child,
        memory=table.memory or None,
        context=table.context,
        folder=folder,
    )


def _call(table: TaskTable, address: WebAddress, faults: list[Fault]) -> HttpCall:
    faults += _out_of_place(table, _OF_A_COMMAND, "is for a command; this task has a url")
    faults += _out_of_place(table, ("python", *_OF_A_FUNCTION), "is for a function; this has a url")
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
