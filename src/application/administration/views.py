"""What people look at: flat values that tables and JSON are made of, here and over HTTP.

Moments are in UTC. Durations are numbers with the unit in their name. Params and errors are JSON
values, and not texts of them.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final, Self

import attrs
import msgspec

from cronhare.application.heartbeat import SILENT_AFTER
from cronhare.domain.execution import Execution, State
from cronhare.domain.outcome import TaskError
from cronhare.domain.retry import RetryPolicy
from cronhare.domain.task import TaskRef
from cronhare.ports.nodes import NodeReport
from cronhare.ports.records import Archived, Attempt, Output
from cronhare.ports.runner import Captured
from cronhare.ports.schedules import StoredSchedule

from .explain import Explanation
from .waits import sent_again_at, what_it_waits_for

#: So many levels of params are shown as JSON. Who reads 1,000 cannot write them inside of a view.
DEEPEST: Final = 500


@attrs.frozen(kw_only=True)
class RetryView:
    """How often is tried, in all, and how long the waits are. *delays_seconds* is a list's."""

    attempts: int
    backoff: str
    delay_seconds: float
    delays_seconds: tuple[float, ...]
    multiplier: float
    max_delay_seconds: float | None
    jitter: str

    @classmethod
    def of(cls, policy: RetryPolicy) -> Self:
        """Show a policy."""
        backoff = policy.backoff
        longest = backoff.max_delay
        return cls(
            attempts=policy.attempts,
            backoff=backoff.type.value,
            delay_seconds=backoff.delay / 1000,
            delays_seconds=tuple(delay / 1000 for delay in backoff.sequence),
            multiplier=backoff.multiplier,
            max_delay_seconds=None if longest is None else longest / 1000,
            jitter=backoff.jitter.value,
        )


@attrs.frozen(kw_only=True)
class LastRun:
    """The newest execution of a schedule that was not skipped."""

    execution_id: int
    state: State
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, execution: Execution) -> Self:
        """Show the newest execution."""
        return cls(
            execution_id=execution.id,
            state=execution.state,
            due_at=execution.due_at,
            started_at=execution.started_at,
            finished_at=execution.finished_at,
        )


@attrs.frozen(kw_only=True)
class ScheduleView:
    """A schedule with its last and its next run.

    Of a row that cannot be understood there is no more than *name*, *schedule*, the text of that
    column, and *problem*. *planned* is false until a scheduler has seen the newest edit.
    """

    id: int
    name: str
    schedule: str | None
    date_time: datetime | None = None
    timezone: str | None = None
    status: bool | None = None
    task: TaskRef | None = None
    task_name: str | None = None
    source: str | None
    params: Any = None
    queue: str | None = None
    description: str | None = None
    retry: RetryView | None = None
    misfire_policy: str | None = None
    misfire_window_seconds: float | None = None
    misfire_cap: int | None = None
    overlap_policy: str | None = None
    timeout_seconds: float | None = None
    jitter_seconds: float | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    created_at: datetime
    updated_at: datetime
    planned: bool
    next_due_at: datetime | None
    last_run: LastRun | None
    problem: str | None

    @classmethod
    def of(cls, stored: StoredSchedule, last: Execution | None) -> Self:
        """Show a row of the users' table; *last* is its newest execution."""
        draft = stored.draft
        row: dict[str, Any] = {
            "id": stored.id,
            "name": stored.name,
            "source": stored.source,
            "created_at": stored.created_at,
            "updated_at": stored.updated_at,
            "planned": stored.planned,
            "next_due_at": stored.next_due_at,
            "last_run": None if last is None else LastRun.of(last),
            "problem": stored.problem,
        }
        if draft is None:
            return cls(schedule=stored.text, **row)
        return cls(
            schedule=draft.schedule,
            date_time=draft.date_time,
            timezone=draft.timezone,
            status=draft.status,
            task=draft.task,
            task_name=draft.task_name,
            params=json_value(draft.params),
            queue=draft.queue,
            description=draft.description,
            retry=None if draft.retry is None else RetryView.of(draft.retry),
            misfire_policy=draft.misfire.policy.value,
            misfire_window_seconds=seconds(draft.misfire.window),
            misfire_cap=draft.misfire.cap,
            overlap_policy=draft.overlap.value,
            timeout_seconds=seconds(draft.timeout),
            jitter_seconds=seconds(draft.jitter),
            starts_at=draft.starts_at,
            ends_at=draft.ends_at,
            **row,
        )


@attrs.frozen(kw_only=True)
class ExecutionView:
    """An execution, with all that explains why it is where it is.

    *waits_for* says so in words, and is None once it has ended. *check_at* is from when on the
    start is looked for, graces aside; a message that is taken for lost is sent again at
    *sent_again_at*. The rest is as in `Execution`.
    """

    id: int
    scheduler_id: int
    schedule_name: str
    key: str
    state: State
    task: TaskRef
    task_name: str | None
    source: str | None
    params: Any
    queue: str
    attempt: int
    deaths: int
    version: int
    due_at: datetime
    last_due_at: datetime | None
    missed: int
    executed_at: datetime
    container_id: str
    retry: RetryView | None
    timeout_seconds: float | None
    owner: str | None
    lease_until: datetime | None
    next_attempt_at: datetime | None
    check_at: datetime | None
    sent_again_at: datetime | None
    published_at: datetime | None
    resends: int
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested: bool
    last_error: str | None
    crashed_at: tuple[datetime, ...]
    problem: str | None
    waits_for: str | None

    @classmethod
    def of(cls, execution: Execution, *, now: datetime) -> Self:
        """Show an execution as it stands at *now*."""
        changed = {"params", "retry", "timeout"}
        fields = msgspec.structs.asdict(execution)
        return cls(
            **{name: value for name, value in fields.items() if name not in changed},
            params=json_value(execution.params),
            retry=None if execution.retry is None else RetryView.of(execution.retry),
            timeout_seconds=seconds(execution.timeout),
            sent_again_at=sent_again_at(execution, now=now),
            waits_for=what_it_waits_for(execution, now=now),
        )


@attrs.frozen(kw_only=True)
class ErrorView:
    """What a task, or its supervisor, said of a failure."""

    message: str
    code: str | None = None
    error_class: str | None = None
    retry_after_seconds: float | None = None
    stack: str | None = None

    @classmethod
    def of(cls, text: str | None) -> Self | None:
        """Read what the ledger keeps; of a text that somebody spoilt all is the message."""
        if text is None:
            return None
        try:
            error = msgspec.json.decode(text, type=TaskError)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return cls(message=text)
        return cls(
            message=error.message,
            code=error.code,
            error_class=error.error_class.value,
            retry_after_seconds=seconds(error.retry_after),
            stack=error.stack,
        )


@attrs.frozen(kw_only=True)
class AttemptView:
    """One start of an execution. *ending* and *run_seconds* are None while it runs."""

    execution_id: int
    attempt: int
    node: str
    pid: int | None
    started_at: datetime
    finished_at: datetime | None
    run_seconds: float | None
    ending: str | None
    exit_code: int | None
    signal: int | None
    error: ErrorView | None
    peak_memory_bytes: int | None
    cpu_seconds: float | None
    problem: str | None

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        """Show an attempt."""
        fields = attrs.asdict(attempt)
        peak_memory = fields.pop("peak_memory")
        ended = attempt.finished_at
        return cls(
            **{**fields, "error": ErrorView.of(attempt.error)},
            peak_memory_bytes=peak_memory,
            run_seconds=None if ended is None else seconds(ended - attempt.started_at),
        )


@attrs.frozen(kw_only=True)
class OutputView:
    """What an attempt wrote; *running* says that there may be more of it."""

    attempt: int
    stdout: Captured
    stderr: Captured
    as_of: datetime | None
    problem: str | None
    running: bool

    @classmethod
    def of(cls, output: Output, *, running: bool) -> Self:
        """Show what an attempt wrote."""
        return cls(**attrs.asdict(output, recurse=False), running=running)


@attrs.frozen(kw_only=True)
class FailureView:
    """A row of the archive; see `Archived`. *execution_id* is None where there is no execution."""

    id: int
    execution_id: int | None
    scheduler_id: int
    schedule_name: str
    execution_key: str
    kind: str
    task: TaskRef
    task_name: str | None
    source: str | None
    queue: str
    params: Any
    failed_at: datetime
    failed_reason: str
    error: ErrorView | None
    attempts: int
    retry_count: int
    resolved_at: datetime | None
    resolution: str | None
    note: str | None
    check_at: datetime | None
    problem: str | None

    @classmethod
    def of(cls, archived: Archived) -> Self:
        """Show a row of the archive."""
        fields = attrs.asdict(archived)
        task = TaskRef(fields.pop("task_type"), fields.pop("task_id"))
        shown = {
            "execution_id": archived.execution_id or None,
            "task": task,
            "params": json_value(archived.params),
            "error": ErrorView.of(archived.error),
        }
        return cls(**{**fields, **shown})


@attrs.frozen(kw_only=True)
class ExplanationView:
    """Why a schedule ran at an instant, or did not; or why an execution is where it is.

    *answer* is the short one, *because* what it rests on, sentence by sentence.
    """

    schedule_name: str
    instant: datetime
    timezone: str
    ran: bool
    answer: str
    because: tuple[str, ...]
    execution: ExecutionView | None
    attempts: tuple[AttemptView, ...]

    @classmethod
    def of(
        cls, found: Explanation, *, name: str, timezone: str, instant: datetime, now: datetime
    ) -> Self:
        """Show an explanation of an instant of the schedule *name*, whose zone that is."""
        execution = found.execution
        return cls(
            schedule_name=name,
            instant=instant,
            timezone=timezone,
            ran=found.ran,
            answer=found.answer,
            because=found.because,
            execution=None if execution is None else ExecutionView.of(execution, now=now),
            attempts=tuple(map(AttemptView.of, found.attempts)),
        )


@attrs.frozen(kw_only=True)
class QueueView:
    """A task queue: who names it, what the ledger has for it, and what the broker says of it.

    *waiting* counts what has not begun, *retrying* what has begun before, *oldest_due_at* is the
    earliest of both. *messages* and *consumers* are None where the broker cannot be asked.
    """

    queue: str
    schedules: int
    waiting: int
    retrying: int
    running: int
    oldest_due_at: datetime | None
    messages: int | None
    consumers: int | None


@attrs.frozen(kw_only=True)
class NodeView:
    """A process that works on the ledger; see `NodeReport`.

    *silent* says that it has not reported itself of late: it has ended, or is cut off.
    """

    name: str
    role: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    silent: bool
    queues: tuple[str, ...]
    concurrency: int | None
    running: int | None
    clock_offset_seconds: float

    @classmethod
    def of(cls, report: NodeReport, *, now: datetime) -> Self:
        """Show a node's newest report as it is to be read at *now*."""
        fields = attrs.asdict(report)
        offset: timedelta = fields.pop("clock_offset")
        silent = now - report.seen_at > SILENT_AFTER
        return cls(**fields, silent=silent, clock_offset_seconds=offset.total_seconds())


def seconds(duration: timedelta | None) -> float | None:
    """Give a duration as a number."""
    return None if duration is None else duration.total_seconds()


def json_value(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Read params; what cannot be shown as JSON stays the text that it is.

    >>> json_value('{"a":1}'), json_value('{')
    ({'a': 1}, '{')
    """
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    might_be_deep = text.count("[") + text.count("{") > DEEPEST
    return text if might_be_deep and _is_deeper(value, DEEPEST) else value


def _is_deeper(value: Any, levels: int) -> bool:  # noqa: ANN401
    level = [value]
    for _ in range(levels + 1):
        level = [child for each in level for child in _children(each)]
    return bool(level)


def _children(value: Any) -> Iterable[Any]:  # noqa: ANN401
    match value:
        case dict():
            return value.values()
        case list():
            return value
    return ()
