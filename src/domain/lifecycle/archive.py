"""The archive: what failed for good or was quarantined, until a person removes it."""

from datetime import datetime

import attrs
import msgspec

from ..execution import Execution, State
from ..messages.messages import AttemptRef
from ..retries.crashes import PoisonPill
from ..retries.outcome import TaskError
from ..retries.retry import Fail, Quarantine, Verdict
from ..retries.retry_policy_parser import write_policy
from ..topology import MAIN_QUEUE
from .failures import Failure
from .transitions import state_after


@attrs.frozen(kw_only=True)
class Archived:
    """A task that failed for good.

    *execution_id* is 0 where another program's worker failed a task of an unknown schedule: it
    cannot be replayed. *kind* is `failed` or `quarantined`. *resolution* is None until it is
    `replayed` or `discarded`. *check_at* says since when its message may be in no queue; None once
    it is, or if it needs none. It is quarantined for its last *crash_count* crashes, from
    *first_crash_at* to the end; both are None for what is no poison pill. *options* is JSON: its
    policy, and its timeout. *topic* is what it was an event of. *event_at* is from when on those
    who want to know of it are told; None once that is taken care of. *problem* says what is wrong
    with its row, where a person spoilt it.
    """

    id: int
    execution_id: int
    scheduler_id: int
    schedule_name: str
    execution_key: str
    kind: str
    task_type: str
    task_id: int
    queue: str
    params: str
    failed_at: datetime
    failed_reason: str
    error: str | None
    attempts: int
    retry_count: int
    resolved_at: datetime | None = None
    resolution: str | None = None
    note: str | None = None
    source: str | None = None
    task_name: str | None = None
    check_at: datetime | None = None
    crash_count: int | None = None
    first_crash_at: datetime | None = None
    options: str | None = None
    topic: str | None = None
    event_at: datetime | None = None
    problem: str | None = None

    @property
    def ticket(self) -> AttemptRef:
        """The last attempt."""
        return AttemptRef(execution_id=self.execution_id, attempt=self.attempts)

    @property
    def pill(self) -> PoisonPill | None:
        """The crashes for which it is quarantined; None if it is not for crashes."""
        if not self.crash_count or self.first_crash_at is None:
            return None
        return PoisonPill(self.crash_count, self.first_crash_at, self.failed_at)

    @property
    def state(self) -> State:
        """The state in which it ended; an unknown *kind* counts as quarantined, and is not run."""
        return State.FAILED if self.kind == State.FAILED else State.QUARANTINED


def archive(
    execution: Execution,
    verdict: Fail | Quarantine,
    error: TaskError | None,
    at: datetime,
    *,
    check_at: datetime | None = None,
) -> Archived:
    """Describe the row of an execution that ended *at* with *verdict*; the ledger gives its id."""
    crashes = verdict.crashes if isinstance(verdict, Quarantine) else ()
    return Archived(
        id=0,
        execution_id=execution.id,
        scheduler_id=execution.scheduler_id,
        schedule_name=execution.schedule_name,
        execution_key=execution.key,
        kind=state_after(verdict).value,
        task_type=execution.task.type,
        task_id=execution.task.id,
        queue=execution.queue,
        params=execution.params,
        failed_at=at,
        failed_reason=verdict.reason,
        error=None if error is None else error.as_json(),
        attempts=execution.attempt,
        retry_count=execution.deaths,
        source=execution.source,
        task_name=execution.task_name,
        check_at=check_at,
        crash_count=len(crashes) or None,
        first_crash_at=crashes[0].at if crashes else None,
        options=_options(execution),
        topic=execution.topic,
        event_at=at,
    )


def _options(execution: Execution) -> str:
    retry, timeout = execution.retry, execution.timeout
    options = {
        "retry": None if retry is None else write_policy(retry),
        "timeout_seconds": None if timeout is None else timeout.total_seconds(),
    }
    return msgspec.json.encode(options).decode()


def archive_end(
    execution: Execution, verdict: Verdict, error: TaskError | None, at: datetime
) -> Archived | None:
    """Describe the row of an execution whose attempt ended *at*; None if it has not failed.

    Its message is yet to be published: `check_at` is the end.
    """
    if not isinstance(verdict, Fail | Quarantine):
        return None
    return archive(execution, verdict, error, at, check_at=at)


def archive_report(failure: Failure, now: datetime) -> Archived:
    """Describe the row of a reported failure that has no execution; the ledger gives its id."""
    message = failure.message
    return Archived(
        id=0,
        execution_id=0,
        scheduler_id=message.scheduler_id,
        schedule_name=f"#{message.scheduler_id}",
        execution_key=failure.key,
        kind=State.FAILED.value,
        task_type=message.type,
        task_id=message.id,
        queue=MAIN_QUEUE,
        params=message.params_scheduler,
        failed_at=failure.failed_at or now,
        failed_reason=message.failed_reason,
        error=None,
        attempts=message.retry_count + 1,
        retry_count=message.retry_count,
        event_at=now,
    )
