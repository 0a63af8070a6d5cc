"""Replays: which executions that ended badly may run again, and as what."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

import attrs
import msgspec

from ..execution import REPLAYABLE, Execution, Graces, State
from ..retries.policy import RetryPolicy
from ..schedules.keys import is_standalone
from ..schedules.schedule import CLEANUP_NAME

#: How a row of the archive is resolved whose execution runs again.
REPLAYED: Final = "replayed"

#: What people ask for is overdue from the start, so that the next reconciler publishes it.
ALREADY_OVERDUE: Final = timedelta(days=1)


def begins_by_hand(now: datetime, *, head_start: timedelta) -> datetime:
    """Say when something began to wait that a person asks for.

    It is overdue: at once, or after the *head start* of whoever claims it and sends it as well.
    """
    return now - (Graces().claimed - head_start if head_start else ALREADY_OVERDUE)


def why_not_replayed(execution: Execution) -> str | None:
    if execution.problem is not None:
        return f"its row is broken: {execution.problem}. Mend it by hand, then replay it"
    if execution.state not in REPLAYABLE:
        return f"it is {execution.state}"
    if is_standalone(execution.queue):
        return "it is a run of what stays alive: its worker begins the next one. Discard it"
    if execution.task.is_system and execution.schedule_name != CLEANUP_NAME:
        return f"its task is the system's own, which runs for {CLEANUP_NAME} alone. Discard it"
    return None


@attrs.frozen(kw_only=True)
class Allowance:
    """How often a replay may be tried: *attempts* in all, or as its policy says.

    *policy* holds for executions without one of their own (C35 in docs/compatibility.md).
    """

    attempts: int | None = None
    policy: RetryPolicy = attrs.field(factory=RetryPolicy)

    def policy_of(self, execution: Execution) -> RetryPolicy | None:
        if self.attempts is None:
            return execution.retry
        return attrs.evolve(execution.retry or self.policy, attempts=self.attempts)


DEFAULT_ALLOWANCE: Final = Allowance()


def replays(
    asked: Iterable[tuple[int, Execution | None]],
    *,
    now: datetime,
    allowance: Allowance,
    head_start: timedelta,
) -> Iterator[tuple[int, Execution, Execution]]:
    """Replay those that may be, at once.

    *asked* pairs the ids of archive rows, oldest first, with their executions; each answer is such
    an id, the execution before, and after. Of several rows of one execution the oldest counts.
    """
    begins = begins_by_hand(now, head_start=head_start)
    taken = set[int]()
    for archived_id, execution in asked:
        if execution is None or execution.id in taken or why_not_replayed(execution) is not None:
            continue
        taken.add(execution.id)
        yield archived_id, execution, replay(execution, begins=begins, allowance=allowance)


def replay(execution: Execution, *, begins: datetime, allowance: Allowance) -> Execution:
    """Make an execution that ended badly claimed again, with a fresh retry allowance.

    Whoever asked for its end before meant what was then; and who wants it now wants it however late
    it is, as a backfill: it expires no more.
    """
    return msgspec.structs.replace(
        execution,
        state=State.CLAIMED,
        version=execution.version + 1,
        attempt=execution.attempt + 1,
        deaths=0,
        crashes=(),
        cancel_requested=False,
        last_error=None,
        published_at=None,
        started_at=None,
        finished_at=None,
        next_attempt_at=begins,
        check_at=begins,
        expires_at=None,
        retry=allowance.policy_of(execution),
    )
