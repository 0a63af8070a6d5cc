"""An execution and its states; `lifecycle/transitions.py` says which follows which."""

import enum
from datetime import datetime, timedelta

import msgspec

from .retries.crashes import MAY_COUNT, Crash
from .retries.outcome import Ending
from .retries.retry import RetryPolicy
from .schedules.owner import NOBODY, ScheduleOwner
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
    *expires_at*, or never. With a *topic* whichever task listens to that is run; *no_listener* says
    what becomes of it if none does. *problem* says what is wrong with a broken row: it is not run.
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
        """The fencing token of the attempt: a later one has a larger token, after replays as well.

        So has each attempt of an execution that was claimed later.
        """
        return self.id * _FENCES + self.attempt

    @property
    def crashed_at(self) -> tuple[datetime, ...]:
        """The times of the *crashes*."""
        return tuple(crash.at for crash in self.crashes)

    def crashes_after(self, ending: Ending, *, now: datetime) -> tuple[Crash, ...]:
        """List the crashes once the running attempt has ended."""
        if ending not in MAY_COUNT:
            return self.crashes
        return (*self.crashes, Crash(now, ending, self.owner or ""))

    @property
    def message_id(self) -> str:
        """The id of the attempt's message, for deduplication and logs."""
        return f"{self.id}:{self.attempt}"
