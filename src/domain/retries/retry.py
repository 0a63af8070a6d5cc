"""What becomes of an attempt that is over: a pure decision, with its reason."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from ..nodes import is_gone, is_presumed_dead, read_node
from ..texts.moments import say_moment
from ..texts.words import counted
from .outcome import (
    LONGEST_RETRY_AFTER,
    SNOOZES,
    Crash,
    CrashPolicy,
    Ending,
    ErrorClass,
    Outcome,
    TaskError,
    asked_wait,
    note_of_asked_wait,
)
from .policy import RetryPolicy

#: The longest wait of an attempt that is given back untried.
LONGEST_AWAY = timedelta(minutes=5)

#: A run whose task a worker lacks waits so long for one that has it: an `apply` is followed by
#: reloads. It is looked for in waits that double, from the first to the longest.
TASK_WAIT = timedelta(minutes=10)
FIRST_LOOK, LONGEST_LOOK = timedelta(seconds=2), timedelta(minutes=1)

#: How the reason of such a wait begins, before the moment of its end.
AWAITS_TASK = "waits for a worker that has its task, until "

#: A server's Retry-After is a floor; jitter adds up to so much of it, within what is longest.
RETRY_AFTER_SPREAD = 0.2


@attrs.frozen
class Complete:
    """It succeeded."""

    reason: str = "succeeded"


@attrs.frozen
class RetryAfter:
    """Try again after *delay*; the *note* says how long a wait a server asked for, if it did."""

    delay: timedelta
    reason: str
    note: str = ""


@attrs.frozen
class GiveBack:
    """Try again after *delay*, at no cost: the attempt was not judged."""

    reason: str
    delay: timedelta = timedelta(0)


@attrs.frozen
class Fail:
    """It failed for good, and is archived."""

    reason: str


@attrs.frozen
class Quarantine:
    """It is quarantined: for its *crashes*, the last of which was its end, or for its row."""

    reason: str
    crashes: tuple[Crash, ...] = ()


@attrs.frozen
class Cancel:
    """Its end was requested."""

    reason: str = "cancelled on request"


Verdict = Complete | RetryAfter | GiveBack | Fail | Quarantine | Cancel


def decide(
    outcome: Outcome,
    *,
    deaths: int,
    policy: RetryPolicy,
    crash_policy: CrashPolicy,
    crashes: Sequence[Crash],
    now: datetime,
    random_fraction: float,
    own_wait: timedelta | None = None,
    restarts: Sequence[Crash] = (),
    expires_at: datetime | None = None,
) -> Verdict:
    """Decide what becomes of an execution whose attempt ended with *outcome*.

    *deaths* counts the bad ends before this one, *crashes* are those that may count, and this one
    if it may; *restarts* are shutdowns that the task may have asked for itself. *random_fraction*
    is in [0, 1). It fails for good once *deaths* reach the policy's retries. *own_wait*, of a
    strategy of the task's own, takes the place of the policy's wait. It is not snoozed beyond
    *expires_at*, and until then as often as its task asks.
    """
    match outcome.ending:
        case Ending.SUCCEEDED:
            return Complete()
        case Ending.CANCELLED:
            return Cancel()
        case Ending.INTERRUPTED if len(restarts) > crash_policy.limit:
            times = counted(len(restarts), "time")
            text = f"was interrupted {times} soon after its start: it seems to restart its worker"
            return Quarantine(text, tuple(restarts))
        case Ending.INTERRUPTED:
            why = outcome.error.message if outcome.error else "interrupted"
            return GiveBack(f"{why}, which costs no attempt")
        case Ending.SNOOZED:
            error = outcome.error or TaskError(message=outcome.ending.value)
            delay = error.retry_after or SNOOZES[0]
            if expires_at is not None and now + delay > expires_at:
                return Fail(f"{error.message}, which is after it expires: {say_moment(expires_at)}")
            return GiveBack(f"{error.message} by its task, which costs no attempt", delay)
    if crash_policy.is_crash(outcome.ending):
        recent = crash_policy.recent(crashes, now=now)
        if len(recent) >= crash_policy.limit:
            window = f"{crash_policy.window.total_seconds():g} s"
            return Quarantine(f"crashed {counted(len(recent), 'time')} within {window}", recent)
    error = outcome.error or TaskError(message=outcome.ending.value)
    if error.error_class is ErrorClass.PERMANENT or deaths >= policy.max_retries:
        return Fail(error.message)
    retry = deaths + 1
    wait = policy.backoff.wait(retry, random_fraction=random_fraction)
    asked = asked_wait(error, now=now) * (1 + RETRY_AFTER_SPREAD * random_fraction)
    delay = max(wait if own_wait is None else own_wait, min(asked, LONGEST_RETRY_AFTER))
    note = note_of_asked_wait(error, now=now)
    told = f"{error.message}; {note}" if note else error.message
    return RetryAfter(delay, f"retry {retry}/{policy.max_retries}: {told}", note)


def give_back(why: str, *, attempt: int, policy: RetryPolicy, random_fraction: float) -> GiveBack:
    """Decide what becomes of an untried *attempt*, whose message came to the wrong worker.

    Beyond the policy's retries it waits longer each time, as it may be nacked for ever. Counts of
    nacks can be forged: so the ledger's number of the attempt decides, the wait has a bound that no
    policy lifts, and none of this is a failure.
    """
    beyond = attempt - policy.max_retries
    if beyond <= 0:
        return GiveBack(why)
    delay = min(policy.backoff.wait(beyond, random_fraction=random_fraction), LONGEST_AWAY)
    text = f"{why} in {delay.total_seconds():.0f} s, since it comes back each time"
    return GiveBack(text, delay)


def await_task(
    missing: str, *, said: str | None, now: datetime, expires_at: datetime | None
) -> GiveBack | None:
    """Decide how long an attempt waits for a worker that has its task; None: for no longer.

    *missing* says what this worker lacks, *said* is the reason for which the attempt before ended:
    a wait goes on. It ends at *expires_at*, too.
    """
    end = now + TASK_WAIT
    until = min(task_awaited_until(said) or end, end, expires_at or end)
    if until <= now:
        return None
    waited = TASK_WAIT - (until - now)
    delay = min(max(waited, FIRST_LOOK), LONGEST_LOOK, until - now)
    return GiveBack(f"{AWAITS_TASK}{say_moment(until)}: {missing}", delay)


def was_snoozed(said: str | None) -> bool:
    return said is not None and said.startswith(Ending.SNOOZED)


def task_awaited_until(said: str | None) -> datetime | None:
    if said is None or not said.startswith(AWAITS_TASK):
        return None
    try:
        return datetime.fromisoformat(said.removeprefix(AWAITS_TASK)[:20])
    except ValueError:  # the reason of a replayed failure, which a message of others told
        return None


# Who held a message that came again, and which of them it has ended (C20 in docs/compatibility.md).
# A worker that dies before it has begun a run leaves no attempt in the ledger: the broker alone
# knows that the message was out, and says so by *redelivered*. It says the same after a shutdown, a
# lost connection and its own restart. So whoever takes such a message notes it first, and takes the
# note back once the ledger knows more, or the message is given back. A note that stays after its
# node is of one who died. A living node's says nothing: it may have an equal message in hand, as
# another program's need no id, or a copy of ours; or the ledger did not answer.

#: Notes of the dead are kept for so long: no window of crashes is longer.
KEPT_FOR: Final = timedelta(days=1)


@attrs.frozen(kw_only=True)
class Holder:
    """A node, the host that it runs on, and that host's boot."""

    node: str
    host: str
    boot: str


@attrs.frozen(kw_only=True)
class Hold:
    """A note that *holder* has taken a message *at* that time, and was *seen_at* last."""

    holder: Holder
    at: datetime
    seen_at: datetime | None = None


def crashes_of(
    holds: Sequence[Hold],
    *,
    us: Holder,
    now: datetime,
    policy: CrashPolicy,
    lives: Callable[[int], bool],
) -> tuple[Crash, ...]:
    """Say which holders the message may have ended, of late; the oldest first.

    A host that was booted since says nothing of the message: that ended all that ran there. *lives*
    tells whether a PID of our own place is in use.
    """
    crashes = [
        Crash(hold.at, Ending.LOST, hold.holder.node)
        for hold in sorted(holds, key=lambda hold: hold.at)
        if hold.holder.node != us.node
        and not (hold.holder.host == us.host and hold.holder.boot != us.boot)
        and _has_ended(hold, us=us, now=now, lives=lives)
    ]
    return policy.recent(crashes, now=now)


def _has_ended(hold: Hold, *, us: Holder, now: datetime, lives: Callable[[int], bool]) -> bool:
    """Tell whether a holder is gone: by its PID where that is proof, by its silence elsewhere."""
    ourselves, holder = read_node(us.node), read_node(hold.holder.node)
    if ourselves is not None and holder is not None:
        gone = is_gone(holder, ourselves=ourselves, lives=lives)
        if gone is not None:
            return gone
    return hold.seen_at is None or is_presumed_dead(hold.seen_at, now)
