"""The transitions of an execution: who may change it, and what each change writes.

The ledger asks here and writes the answer; it decides nothing. `start` is the fence: whether an
attempt may start. New executions, and replays, are in `claims.py`.
"""

from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final, Protocol

import msgspec

from ..execution import REPLAYABLE, STARTABLE, WAITING, Execution, State, after_resend
from ..messages import Nacks
from ..retries.limits import DEFERRED
from ..retries.outcome import Ending
from ..retries.retry import Cancel, Complete, Fail, GiveBack, Quarantine, RetryAfter, Verdict
from ..schedules.conditions import expired
from ..texts.moments import say_moment

#: The fields that a change can change.
_CHANGING: Final = (
    "state",
    "attempt",
    "deaths",
    "version",
    "owner",
    "lease_until",
    "next_attempt_at",
    "check_at",
    "published_at",
    "started_at",
    "finished_at",
    "last_error",
    "cancel_requested",
    "resends",
    "retry",
    "held_by",
    "crashes",
    "expires_at",
)
_changing = attrgetter(*_CHANGING)


def changes(before: Execution, after: Execution) -> dict[str, Any]:
    cells = zip(_CHANGING, _changing(before), _changing(after))  # noqa: B905 - of each start
    return {name: new for name, old, new in cells if new is not old}


class Standing(Protocol):
    """What decides who may end an attempt: an execution, or a few columns of its row."""

    @property
    def state(self) -> str: ...
    @property
    def owner(self) -> str | None: ...
    @property
    def attempt(self) -> int: ...
    @property
    def version(self) -> int: ...


def is_held(execution: Standing, node: str) -> bool:
    return execution.state == State.RUNNING and execution.owner == node


def may_finish(execution: Standing, attempt: int, *, node: str) -> bool:
    return is_held(execution, node) and execution.attempt == attempt


def may_give_up(execution: Standing, *, version: int) -> bool:
    """Tell whether an attempt whose lease had lapsed at that version may be ended as lost."""
    return execution.state == State.RUNNING and execution.version == version


def is_as_sent(sent: Execution, state: str, attempt: int) -> bool:
    return (sent.state, sent.attempt) == (state, attempt)


def publish(sent: Execution, *, now: datetime) -> Execution:
    """Note that the broker has confirmed a message of an execution that is still `is_as_sent`.

    Each copy waits longer. A copy whose time has not come changes nothing; nor does a message that
    nobody waits for.
    """
    begins = sent.next_attempt_at or now
    if sent.state is State.CLAIMED:
        return msgspec.structs.replace(
            sent,
            state=State.PUBLISHED,
            version=sent.version + 1,
            published_at=now,
            check_at=max(begins, now),
        )
    if sent.state not in STARTABLE or begins > now:
        return sent
    return msgspec.structs.replace(
        sent,
        resends=sent.resends + 1,
        check_at=after_resend(sent.resends, sent.state, now),
    )


def may_hand_over(sent: Execution, state: str, attempt: int) -> bool:
    return state in STARTABLE and sent.attempt == attempt


def hand_over(execution: Execution, *, now: datetime) -> Execution:
    published_at = execution.published_at or now
    return _close(execution, State.HANDED_OVER, now, published_at=published_at)


def _close(
    execution: Execution,
    state: State,
    now: datetime,
    **changes: Any,  # noqa: ANN401 - fields of the execution
) -> Execution:
    return msgspec.structs.replace(
        execution,
        state=state,
        version=execution.version + 1,
        next_attempt_at=None,
        check_at=None,
        held_by=None,
        finished_at=now,
        **changes,
    )


def begin(
    execution: Execution, *, deaths: int, node: str, lease_until: datetime, now: datetime
) -> Execution:
    """Start the attempt that an execution waits for; *deaths* include the nacks of its message."""
    return msgspec.structs.replace(
        execution,
        state=State.RUNNING,
        version=execution.version + 1,
        owner=node,
        lease_until=lease_until,
        started_at=execution.started_at or now,
        next_attempt_at=None,
        check_at=None,
        held_by=place_of(execution),
        resends=0,
        deaths=max(execution.deaths, deaths),
    )


def renew(execution: Execution, until: datetime) -> Execution:
    """Extend a running attempt's lease: a new version, as `may_give_up` compares it."""
    return msgspec.structs.replace(execution, lease_until=until, version=execution.version + 1)


def cancel(execution: Execution, *, now: datetime) -> Execution:
    """Cancel an execution that waits; of one that runs, request it of its worker.

    One that ended badly may be in a replay of many that has not begun it yet: that leaves it out.
    """
    if execution.state is State.RUNNING or execution.state in REPLAYABLE:
        return msgspec.structs.replace(execution, cancel_requested=True)
    if execution.state not in WAITING:
        return execution
    return _close(execution, State.CANCELLED, now, cancel_requested=True)


#: How the reason begins of a run that a later one has replaced.
_REPLACED: Final = "overlap: execution "


def cancel_for(execution: Execution, later: int, *, now: datetime) -> Execution:
    after = cancel(execution, now=now)
    if after == execution:  # its end was asked for before
        return execution
    reason = f"{_REPLACED}{later} takes its place (overlap policy cancel_previous)"
    return msgspec.structs.replace(after, last_error=reason)


def was_replaced(execution: Execution) -> bool:
    return (execution.last_error or "").startswith(_REPLACED)


def has_expired(execution: Execution, *, now: datetime) -> bool:
    return (
        execution.expires_at is not None
        and execution.expires_at < now
        and execution.state in WAITING
        and execution.started_at is None
    )


def expire(execution: Execution, *, now: datetime) -> Execution:
    allowed = (execution.expires_at or now) - execution.due_at
    return _close(execution, State.SKIPPED, now, last_error=expired(allowed))


def hold(execution: Execution, gate: str) -> Execution:
    return msgspec.structs.replace(
        execution,
        state=State.HELD,
        version=execution.version + 1,
        published_at=None,
        resends=0,
        held_by=gate,
    )


def defer(execution: Execution, until: datetime, *, why: str) -> Execution:
    """Let a retry wait longer than it has: no attempt begins, and none is lost.

    *why* follows what its last attempt ended with, in the place of a reason from before.
    """
    before, is_known, _ = (execution.last_error or "").rpartition(DEFERRED)
    error = before if is_known else execution.last_error or ""
    return msgspec.structs.replace(
        execution,
        version=execution.version + 1,
        next_attempt_at=until,
        check_at=until,
        resends=0,
        last_error=f"{error}{DEFERRED}{why}",
    )


def let_go(held: Execution, *, now: datetime) -> Execution:
    return msgspec.structs.replace(
        held,
        state=State.CLAIMED,
        version=held.version + 1,
        check_at=now,
        held_by=place_of(held),
    )


def place_of(execution: Execution) -> str | None:
    """Give what its `held_by` says while it has a place of its concurrency key, if it has a key."""
    if execution.concurrency_key is None:
        return None
    place = place_with(execution.concurrency_key)
    return execution.held_by if execution.held_by == place else place  # the same is not written


def place_with(key: str) -> str:
    """Give what `held_by` says of all that have a place of a key; it names no gate."""
    return f"place {key}"


def overruled(execution: Execution, verdict: Verdict) -> Verdict:
    """Let a requested cancel win over the verdict, for the reason that it was requested for."""
    if not execution.cancel_requested:
        return verdict
    return Cancel(execution.last_error or "") if was_replaced(execution) else Cancel()


def end(execution: Execution, verdict: Verdict, ending: Ending, *, now: datetime) -> Execution:
    delay = verdict.delay if isinstance(verdict, RetryAfter | GiveBack) else None
    next_attempt_at = None if delay is None else now + delay
    return msgspec.structs.replace(
        execution,
        state=state_after(verdict),
        version=execution.version + 1,
        owner=None,
        lease_until=None,
        attempt=execution.attempt + (delay is not None),
        deaths=execution.deaths + isinstance(verdict, RetryAfter),
        next_attempt_at=next_attempt_at,
        check_at=next_attempt_at,
        held_by=None,
        finished_at=now if delay is None else None,
        last_error=None if isinstance(verdict, Complete) else verdict.reason,
        crashes=execution.crashes_after(ending, now=now),
    )


def set_apart(execution: Execution, problem: str, *, now: datetime) -> Execution:
    """Quarantine an execution whose row is broken, or of which the ledger refuses something.

    Its version begins anew: the one in the row may be no number, or the largest there is.
    """
    anew = msgspec.structs.replace(execution, version=0, owner=None, lease_until=None)
    return _close(anew, State.QUARANTINED, now, last_error=problem)


def state_after(verdict: Verdict) -> State:
    match verdict:
        case Complete():
            return State.SUCCEEDED
        case RetryAfter() | GiveBack():
            return State.RETRYING
        case Fail():
            return State.FAILED
        case Quarantine():
            return State.QUARANTINED
        case Cancel():
            return State.CANCELLED


#: An attempt may start so much before its time, as each node measures the ledger's clock for
#: itself (ADR 12). The broker's lanes are late, and never early.
EARLIEST: Final = timedelta(seconds=5)


def start(
    execution: Execution,
    *,
    attempt: int,
    nacks: Nacks | None,
    node: str,
    now: datetime,
    until: datetime,
) -> Execution | str:
    """Give the execution once *node* has started the attempt, or it has expired; or say why not.

    *nacks* come from the attempt's message; None if the system itself asks. *until* is the end of
    the lease. A repeated start is answered as the first: the lease of a node that owns the attempt
    already begins anew.
    """
    if execution.problem is not None:
        return f"its row is broken: {execution.problem}"
    if execution.task.is_system and nacks is not None:
        return "it is the system's own, which no message starts"
    if execution.attempt != attempt:
        return f"attempt {execution.attempt} is due, not {attempt}"
    if is_held(execution, node):
        return execution if execution.lease_until == until else renew(execution, until)
    if execution.state not in STARTABLE:
        return f"the execution is {execution.state}"
    if execution.cancel_requested:
        return "its end was asked for"
    if has_expired(execution, now=now):
        return expire(execution, now=now)
    if nacks is not None and (begins := _waits_until(execution, now)) is not None:
        return f"attempt {attempt} waits until {say_moment(begins)}"
    deaths = execution.deaths
    if nacks is not None:
        deaths += nacks.since(_in_queue_since(execution), queue=execution.queue, now=now)
    return begin(execution, deaths=deaths, node=node, lease_until=until, now=now)


def _waits_until(execution: Execution, now: datetime) -> datetime | None:
    """Give the time that the coming attempt waits for; None if it may start.

    A clock that was set back to before the last known event cannot say that an attempt is early; of
    what is replayed only a clock that was ahead says so, since its turn is never so far away.
    """
    begins, known = execution.next_attempt_at, execution.started_at or execution.executed_at
    if begins is None or not known <= now < begins - EARLIEST:
        return None
    is_replayed = execution.attempt > 1 and execution.started_at is None
    return None if is_replayed else begins


def _in_queue_since(execution: Execution) -> datetime | None:
    match execution:
        case Execution(state=State.RETRYING, next_attempt_at=begins):
            return begins
        case Execution(published_at=datetime() as at, next_attempt_at=begins):
            return max(at, begins or at)
    return None
