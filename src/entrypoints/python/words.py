"""The words of a jobs file in Python, and what a task is told of its run and may answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

from cronhare.domain.texts.moments import as_span, say_duration

#: A span of time, or its text: `"90s"`, `"5m"`, `"1h30m"`, `"250ms"`.
Duration: TypeAlias = timedelta | str

#: A table of a jobs file, as TOML would have it.
Table: TypeAlias = dict[str, Any]


_RETRY: Final = 'retry=Retry(4, first="30s"), which counts the first run as well'
#: Words of Celery, and what to write here.
_FOREIGN: Final = {
    **dict.fromkeys(("time_limit", "soft_time_limit"), 'timeout="5m"'),
    **dict.fromkeys(
        ("max_retries", "default_retry_delay", "retry_backoff", "retry_jitter"), _RETRY
    ),
    "autoretry_for": f"{_RETRY}; every exception but PermanentError is tried again",
    "rate_limit": 'concurrency={"key": …, "limit": …}, which limits how many run at once',
    "bind": "a first parameter `ctx: Context`",
    "acks_late": "nothing: it is always so",
    "countdown": "delay",
    "eta": "at",
    "task_id": "key",
}


def refuse_foreign(words: Iterable[str]) -> None:
    """Raise TypeError for words of Celery, and say what to write."""
    if found := [f"for {word} write {_FOREIGN[word]}" for word in words if word in _FOREIGN]:
        raise TypeError(f"these are words of Celery: {'; '.join(found)}")


class When:
    """When a schedule is due: what `cron`, `every` and `at` give."""

    def __init__(self, **words: object) -> None:
        """*words* are those of `[schedules.NAME]`.

        Raises:
            ValueError: the cron text or the zone cannot be read.
        """
        self.words = written(words)
        if self.words.keys() & {"schedule", "timezone"}:
            from cronhare.domain.cron import CronExpression, find_zone  # noqa: PLC0415 - few need it

            CronExpression.parse(self.words.get("schedule", "@daily"), "any")
            find_zone(self.words.get("timezone", "UTC"))


def cron(
    text: str,
    *,
    tz: str | None = None,
    gap: Literal["after", "skip"] | None = None,
    fold: Literal["first", "second", "both"] | None = None,
    jitter: Duration | None = None,
) -> When:
    """Due by cron *text* (five fields, names, `H`, `L`, `#`, `@daily`) in the zone *tz*, or UTC.

    *gap* says what becomes of a time that the spring change skips, *fold* which of the two counts
    that the autumn change repeats. Each run begins up to *jitter* later.
    """
    return When(schedule=text, timezone=tz, gap=gap, fold=fold, jitter=jitter)


def every(interval: Duration | float, *, jitter: Duration | None = None) -> When:
    """Due again and again, by instants that stand still whatever restarts: `every("30s")`.

    A number is seconds.
    """
    span = interval if isinstance(interval, str) else as_span(interval)
    return When(every=span, jitter=jitter)


def at(moment: datetime | str, *, tz: str | None = None, jitter: Duration | None = None) -> When:
    """Due once; a *moment* without an offset is wall time in *tz*, or UTC.

    Schedules go by minutes, and a run is never early: a moment within one is the next.
    """
    if isinstance(moment, datetime) and (moment.second or moment.microsecond):
        moment = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
    return When(date_time=moment, timezone=tz, jitter=jitter)


class Retry:
    """How often to try in all, and how long to wait in between.

    Before the second attempt it waits *first*, and then *factor* times as long before each other
    one, at most *most*; `jitter` spreads the waits.
    """

    def __init__(
        self,
        attempts: int,
        *,
        first: Duration | None = None,
        factor: float | None = None,
        most: Duration | None = None,
        jitter: Literal["none", "plus", "both", "full"] | None = None,
    ) -> None:
        """*attempts* counts the first run as well; what is not said is as the settings have it."""
        said = {
            "delay": _milliseconds(first),
            "multiplier": factor,
            "max_delay": _milliseconds(most),
            "jitter": jitter,
        }
        backoff = {name: value for name, value in said.items() if value is not None}
        self.table: Table = {"attempts": attempts}
        if backoff:
            self.table["backoff"] = {"type": "exponential", **backoff}


class AlertWords(TypedDict, total=False):
    """Whom to tell of what, for a task or a schedule."""

    notify: Sequence[str]
    on_failure: Sequence[str]
    late_after: Duration
    not_started_by: Duration
    not_finished_by: Duration
    longer_than_usual: float | str
    least_output: int | str


class ScheduleWords(AlertWords, total=False):
    """What a schedule may say beside its task and its times: docs/reference/jobs-file.md."""

    description: str
    status: bool
    manual: bool
    on_start: bool
    on_boot: bool
    stay_alive: bool
    misfire: str | Mapping[str, Any]
    overlap: Literal["allow", "skip", "queue_one", "queue_all", "cancel_previous"]
    concurrency: Mapping[str, Any]
    timeout: Duration
    jitter: Duration
    retry: "Retry | str | Mapping[str, Any]"
    starts_at: datetime | str
    ends_at: datetime | str
    queue: str
    max_runs: int
    pause_after: int
    expires: Duration
    skip_on: Sequence[str]
    only_on: Sequence[str]
    blackout: Sequence[str]
    ping: str
    user_id: int
    group_id: int
    language_id: int


class TaskWords(AlertWords, total=False):
    """What a task may say beside what `App.task` names: docs/reference/jobs-file.md."""

    id: int
    type: str
    class_: str
    errors: Mapping[str, str]
    strategy: str
    topics: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    user: str


def written(words: Mapping[str, object]) -> Table:
    return {
        name.removesuffix("_"): _written(value)
        for name, value in words.items()
        if value is not None
    }


def _written(value: object) -> Any:  # noqa: ANN401 - what TOML can hold
    match value:
        case timedelta():
            return say_duration(value)
        case datetime() | date():
            return value.isoformat()
        case PurePath():
            return str(value)
        case Retry():
            return value.table
        case Mapping():
            return {str(name): _written(inner) for name, inner in value.items()}
        case str():
            return value
        case Sequence() | set() | frozenset():
            return [_written(each) for each in value]
    return value


def _milliseconds(duration: Duration | None) -> int | None:
    return None if duration is None else as_span(duration) // timedelta(milliseconds=1)


if TYPE_CHECKING:
    from logging import Logger


class Cancelled(BaseException):
    """Raised in a task that is to end: its time limit, a cancel or a shutdown.

    Like `KeyboardInterrupt` it passes `except Exception`. After 5 s the process is killed.
    """


def _log() -> "Logger":
    from logging import getLogger  # noqa: PLC0415 - for whoever runs tasks, not for all that have them

    return getLogger("cronhare.task")


@dataclass(kw_only=True, slots=True)
class Context:
    """The run that a task is called for, as its first parameter if it is annotated so.

    *due_at* is when the run was due, in UTC, or when it was enqueued; *attempt* counts from 1.
    *key* names the due instant, or is `task-` and what `enqueue` was given: the same in each
    attempt, it makes a good idempotency key. *fence* is larger in each later attempt: a store that
    refuses smaller ones is safe from an attempt that was taken for lost and still writes. *missed*
    counts the due instants that were missed in a downtime and this run makes up for, its own among
    them if that was missed; *previous_success* is the due instant of the schedule's last run before
    this one that succeeded. *cancelled* is true once it is to end.
    """

    due_at: datetime
    attempt: int = 1
    key: str = ""
    fence: int = 0
    missed: int = 0
    previous_success: datetime | None = None
    schedule: str | None = None
    execution_id: int | None = None
    log: "Logger" = field(default_factory=_log)
    cancelled: bool = False
    on_report: Callable[[float, str | None], None] | None = field(default=None, repr=False)

    def progress(self, fraction: float, text: str | None = None) -> None:
        """Report how far the work is. The task's time limit begins anew."""
        if self.on_report is not None:
            self.on_report(fraction, text)


class Snooze:
    """Returned by a task: run it again *after* that time. It costs no attempt."""

    def __init__(self, after: timedelta | str | float) -> None:
        self.seconds = as_span(after).total_seconds()
        if self.seconds < 0:
            raise ValueError(f"a task cannot be put off by {after}")
