"""The tables of a jobs file, as they are written."""

from typing import Annotated, Any, Literal

import attrs
from msgspec import Meta

from cronhare.domain.cron import Gap
from cronhare.domain.schedules.concurrency import LIMITS
from cronhare.domain.schedules.http_call import MOST_HEADERS
from cronhare.domain.schedules.notify import MOST_NAMED
from cronhare.domain.schedules.schedule import (
    CAPS,
    DEFAULT_MISFIRE,
    DEFAULT_OVERLAP,
    DEFAULT_ZONE,
    MisfirePolicy,
    OverlapPolicy,
)
from cronhare.domain.schedules.task import LARGEST_NUMBER, TYPE_NAME, USER_NAME, TaskType
from cronhare.domain.schedules.topic import ALLOWED, MOST_TOPICS, TOPIC, NoListener
from cronhare.domain.texts.names import NAME

from .tables import REQUIRED


def _whole_number(least: int, most: int) -> Meta:
    return Meta(ge=least, le=most, description=f"a whole number, {least}-{most}")


Id = Annotated[int, _whole_number(1, LARGEST_NUMBER)]
OwnerNumber = Annotated[int, _whole_number(0, LARGEST_NUMBER)]
Source = Annotated[str, Meta(pattern=rf"^{NAME}\Z", description="a name of a-z, 0-9 and . _ -")]
Cap = Annotated[int, _whole_number(CAPS[0], CAPS[-1])]
Limit = Annotated[int, _whole_number(LIMITS[0], LIMITS[-1])]
User = Annotated[
    str,
    Meta(
        pattern=USER_NAME,
        description="a user's name: letters, digits, dot, dash and underscore, at most 32",
    ),
]
TypeName = Annotated[
    str,
    Meta(
        pattern=TYPE_NAME,
        description=f"one of {', '.join(TaskType)}, or a name of your own: a-z, 0-9, - and _, at "
        "most 32, beginning with a letter",
    ),
]
Command = Annotated[list[str], Meta(min_length=1, description="a list of texts, at least one")]
Topic = Annotated[
    str,
    Meta(
        pattern=TOPIC,
        description=f"a topic: {ALLOWED}",
    ),
]
Topics = Annotated[
    list[Topic],
    Meta(
        min_length=1,
        max_length=MOST_TOPICS,
        description=f"a list of 1 to {MOST_TOPICS} topics: letters, digits, and . _ : / -",
    ),
]
Remind = Annotated[
    list[str],
    Meta(
        min_length=1,
        max_length=MOST_NAMED,
        description=f"a list of 1 to {MOST_NAMED} names of [notify.NAME]",
    ),
]
Method = Literal["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD"]
HttpHeaders = Annotated[
    dict[str, str], Meta(max_length=MOST_HEADERS, description="a table of texts, by their names")
]
QueueName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9_][a-z0-9._-]{0,62}\Z",
        description="a queue's name: a-z, 0-9, dot, dash and underscore, at most 63",
    ),
]


@attrs.frozen(kw_only=True)
class PolicyTable:
    """How tasks are run where nothing nearer says it."""

    retry: Any = None
    timeout: str | None = None
    errors: Any = None
    strategy: str | None = None
    # What is wrong with these is told by `notify.py`.
    notify: Any = None
    on_failure: Any = None
    late_after: Any = None
    not_started_by: Any = None
    not_finished_by: Any = None
    longer_than_usual: Any = None
    least_output: Any = None


@attrs.frozen(kw_only=True)
class ClassTable(PolicyTable):
    """`[classes.NAME]`: how the tasks of a class are run, and how much of their past is kept."""

    keep: Any = None


@attrs.frozen(kw_only=True)
class DefaultsTable(PolicyTable):
    """`[defaults]`: a policy, and where and with which variables commands run."""

    cwd: str | None = None
    env: dict[str, str] = attrs.field(factory=dict[str, str])
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
        """The worker's variables that are passed on."""
        return tuple(self.pass_env or ())


@attrs.frozen(kw_only=True)
class TaskTable(DefaultsTable):
    """`[tasks.NAME]`: what a worker may run. Without an *id* one is assigned."""

    id: Id | None = None
    command: Command | None = None
    url: str | None = None
    method: Method | None = None
    headers: HttpHeaders | None = None
    headers_env: HttpHeaders | None = None
    success: Any = None
    remind: Remind | None = None
    subject: str | None = None
    text: str | None = None
    topics: Topics | None = None
    type: TypeName | None = None
    class_: str | None = None
    user: User | None = None


@attrs.frozen(kw_only=True)
class MisfireTable:
    """`misfire = { policy, window, cap }`."""

    policy: MisfirePolicy = DEFAULT_MISFIRE.policy
    window: str | None = None
    cap: Cap = DEFAULT_MISFIRE.cap


@attrs.frozen(kw_only=True)
class ConcurrencyTable:
    """`concurrency = { key, limit }`: so many attempts with the key run at once."""

    key: str = attrs.field(default="-", metadata=REQUIRED)
    limit: Limit = attrs.field(default=LIMITS[0], metadata=REQUIRED)


@attrs.frozen(kw_only=True)
class ScheduleTable:
    """`[schedules.NAME]`: what is due when."""

    ping: Any = None
    task: str | None = None
    topic: Topic | None = None
    no_listener: NoListener | None = None
    payload: Any = None
    schedule: str | None = None
    date_time: Any = None
    every: str | None = None
    gap: Gap = Gap.AFTER
    fold: Literal["first", "second", "both", 0, 1] = "first"
    on_start: bool = False
    on_boot: bool = False
    manual: bool = False
    timezone: str = DEFAULT_ZONE
    params: Any = None
    status: bool = True
    description: str | None = None
    retry: Any = None
    misfire: Any = attrs.field(factory=dict[str, Any])
    overlap: OverlapPolicy = DEFAULT_OVERLAP
    concurrency: Any = None
    timeout: str | None = None
    jitter: str | None = None
    starts_at: Any = None
    ends_at: Any = None
    queue: QueueName | None = None
    stay_alive: bool = False
    max_runs: Any = None
    expires: str | None = None
    skip_on: Any = None
    only_on: Any = None
    blackout: Any = None
    user_id: OwnerNumber | None = None
    group_id: OwnerNumber | None = None
    language_id: OwnerNumber | None = None
    notify: Any = None
    on_failure: Any = None
    late_after: Any = None
    not_started_by: Any = None
    not_finished_by: Any = None
    longer_than_usual: Any = None
    least_output: Any = None


@attrs.frozen(kw_only=True)
class CalendarTable:
    """`[calendars.NAME]`: windows, each with a name or without, and a file that has others."""

    timezone: str = DEFAULT_ZONE
    days: Any = None
    file: str | None = None


@attrs.frozen(kw_only=True)
class FileTable:
    """The whole file. *source* is the name under which the ledger remembers it."""

    source: Source | None = None
    defaults: Any = attrs.field(factory=dict[str, Any])
    classes: dict[str, Any] = attrs.field(factory=dict[str, Any])
    notify: dict[str, Any] = attrs.field(factory=dict[str, Any])
    tasks: dict[str, Any] = attrs.field(factory=dict[str, Any])
    schedules: dict[str, Any] = attrs.field(factory=dict[str, Any])
    calendars: dict[str, Any] = attrs.field(factory=dict[str, Any])
