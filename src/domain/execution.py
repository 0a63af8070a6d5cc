"""An execution: its states, what its task reports, and when its message is sent again.

The S and C numbers are lines of docs/compatibility.md.
"""

import enum
from datetime import datetime, timedelta
from typing import Protocol

import attrs
import msgspec

from .retries.outcome import MAY_COUNT, Crash, Ending
from .retries.policy import RetryPolicy, exponential
from .schedules.schedule import NOBODY, ScheduleOwner
from .schedules.task import TaskRef

#: Between the fencing tokens of an execution and those of the next: `42000003` is attempt 3 of 42.
_FENCES = 1_000_000


class State(enum.StrEnum):
    """The states of an execution: drawn in docs/design.md."""

    CLAIMED = "claimed"
    HELD = "held"  # a gate holds it back: see lifecycle/gates.py
    PUBLISHED = "published"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    HANDED_OVER = "handed-over"  # to another program's queue; we hear no more of it


#: States from which an attempt may start: a message can outrun the mark of its publish.
STARTABLE = frozenset({State.CLAIMED, State.PUBLISHED, State.RETRYING})

#: States in which an execution waits, and can be cancelled at once.
WAITING = STARTABLE | {State.HELD}

#: States in which something is still to happen.
UNFINISHED = WAITING | {State.RUNNING}

#: States of a bad end, which may be replayed.
REPLAYABLE = frozenset({State.FAILED, State.QUARANTINED})

#: States that ended without a result of ours.
ENDED_WITHOUT_RESULT = frozenset({State.CANCELLED, State.SKIPPED, State.HANDED_OVER})


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """One due instant of a schedule, or one manual run.

    *attempt* numbers the attempt that runs or comes next, from 1; its message was sent again
    *resends* times. *deaths* counts how often it was retried since it began, or was replayed: not
    the failure that no attempt follows. Task and params are as they were at the claim: *params* is
    JSON text, *task_name* the task's name in the jobs file *source*; both are None for a row
    written by hand. *crashes* lists the ends that may count as such, oldest first. The reconciler
    looks for the start from *check_at* on, graces aside; *next_attempt_at* stays what was promised.
    *concurrency_key* and *overlap_policy* are None where nothing may hold it back; *held_by* names
    the gate that does, or the place that it has (`lifecycle/gates.py`). Its first attempt begins by
    *expires_at*, or never. Of a run *missed* counts the missed instants that it makes up for, its
    own among them if that was missed; of skipped instants, which end at *last_due_at*, all of them.
    With a *topic* whichever task listens to that is run; *no_listener* says what becomes of it if
    none does. *problem* says what is wrong with a broken row: it is not run.
    *owned_by* is read at the start of an attempt alone.
    """

    id: int
    scheduler_id: int
    schedule_name: str
    key: str
    state: State
    task: TaskRef
    params: str
    queue: str
    attempt: int
    deaths: int
    version: int
    due_at: datetime
    executed_at: datetime
    container_id: str
    retry: RetryPolicy | None = None
    timeout: timedelta | None = None
    owner: str | None = None
    lease_until: datetime | None = None
    next_attempt_at: datetime | None = None
    check_at: datetime | None = None
    published_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    last_error: str | None = None
    cancel_requested: bool = False
    last_due_at: datetime | None = None
    missed: int = 0
    resends: int = 0
    source: str | None = None
    task_name: str | None = None
    concurrency_key: str | None = None
    overlap_policy: str | None = None
    held_by: str | None = None
    crashes: tuple[Crash, ...] = ()
    expires_at: datetime | None = None
    topic: str | None = None
    no_listener: str | None = None
    problem: str | None = None
    owned_by: ScheduleOwner = NOBODY

    @property
    def fence(self) -> int:
        return self.id * _FENCES + self.attempt

    @property
    def crashed_at(self) -> tuple[datetime, ...]:
        return tuple(crash.at for crash in self.crashes)

    def crashes_after(self, ending: Ending, *, now: datetime) -> tuple[Crash, ...]:
        if ending not in MAY_COUNT:
            return self.crashes
        return (*self.crashes, Crash(now, ending, self.owner or ""))

    @property
    def message_id(self) -> str:
        return f"{self.id}:{self.attempt}"


#: The wait before a confirmed message is sent again for the first time, and the longest wait: 8
#: copies on the first day, then one a day.
FIRST_WAIT = timedelta(minutes=5)
LONGEST_WAIT = timedelta(days=1)

#: The wait after a copy that was not confirmed.
UNCONFIRMED_WAIT = timedelta(seconds=30)

#: A message that may have been lost while it waited for its time is sent again so long after it.
LOST_WAIT = timedelta(seconds=5)

#: A broker that confirmed nothing for so long may have lost its messages.
DOUBTED_AFTER = timedelta(minutes=1)


@attrs.frozen(kw_only=True)
class Graces:
    """How long something may be late before the reconciler sends it again.

    The broker may have lost its message, its queue may be long, or no worker may consume: the
    ledger cannot tell. So each confirmed copy doubles the wait for the next one; an unconfirmed
    copy does not count.
    """

    claimed: timedelta = timedelta(seconds=10)
    retrying: timedelta = LOST_WAIT
    published: timedelta = FIRST_WAIT
    ended: timedelta = UNCONFIRMED_WAIT

    def of(self, state: State) -> timedelta:
        waiting = {State.CLAIMED: self.claimed, State.RETRYING: self.retrying}
        return waiting.get(state, self.published)


def wait_after(resends: int) -> timedelta:
    """Say how long a message may take that was sent again *resends* times.

    >>> [wait_after(resends) // timedelta(minutes=1) for resends in (0, 1, 2, 8, 9, 10**6)]
    [5, 10, 20, 1280, 1440, 1440]
    """
    return exponential(FIRST_WAIT, resends, LONGEST_WAIT)


def expected_anew_at(found: Execution, now: datetime, *, grace: timedelta) -> datetime:
    """Say from when on the grace of the published counts for one found late, not sent again."""
    return now + UNCONFIRMED_WAIT - grace if found.state is State.PUBLISHED else now


def after_resend(resends: int, state: State, sent_at: datetime) -> datetime:
    """Say from when on the grace counts after a confirmed copy; *resends* counts those before."""
    wait = wait_after(resends)
    return sent_at + wait - FIRST_WAIT if state is State.PUBLISHED else sent_at + wait


class Sent(Protocol):
    """What of a row says when its message was sent."""

    state: str
    check_at: datetime | None
    next_attempt_at: datetime | None
    published_at: datetime | None
    resends: int | None


def expected_after_doubt(sent: Sent, now: datetime, *, since: datetime) -> datetime | None:
    """Say from when on the grace of the published counts, if a broker may have lost the message.

    It answered nothing *since*. None if the message was sent later, or is sent again soon anyway.
    One that waits for its time is overdue a little after it, as it may be there; others are now.
    """
    is_published, at = sent.state == State.PUBLISHED, sent.next_attempt_at
    if sent.check_at is None:
        return None
    was_before = sent.published_at is None or sent.published_at < since
    if at is not None and at > now:
        is_meant = is_published and was_before and sent.check_at >= at
        return at + LOST_WAIT - FIRST_WAIT if is_meant else None
    if (resends := sent.resends or 0) > 0:
        was_before = sent.check_at < after_resend(resends - 1, State(sent.state), since)
    soon = now + UNCONFIRMED_WAIT - (FIRST_WAIT if is_published else timedelta(0))
    return now - FIRST_WAIT if was_before and sent.check_at > soon else None
