"""How a replay of many goes on: what may begin now, whether to wait, and when it stops.

After an outage a server is weak: all that failed meanwhile, sent at once, ends it again (S2.12 in
docs/compatibility.md). So they begin one by one, each at a moment of its own.
"""

import enum
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import attrs

from ..execution import State
from .backfill import BackfillOrder
from .replay import Pacing, ReplayOrder

#: So far ahead beginnings are fixed at a time, and so soon it is looked again.
STEP: Final = timedelta(seconds=1)

#: So long it is not looked again where all keys are full: the next begins soon after an end.
FULL_FOR: Final = timedelta(milliseconds=200)

#: No pace that people order is so slow; of one that is, two of its gaps count.
FARTHEST: Final = timedelta(minutes=5)

#: Fewer are no rate; a canary of any size is.
FEWEST_JUDGED: Final = 10


class ReplayState(enum.StrEnum):
    """Whether a replay goes on."""

    ACTIVE = "active"
    STOPPED = "stopped"
    DONE = "done"


class ItemState(enum.StrEnum):
    """What became of one failure of a replay, or of one instant of a backfill."""

    WAITING = "waiting"
    RELEASED = "released"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"  # it could not be replayed, or somebody else has; an instant has run before


#: States in which an execution has gone well in a replay: what another program took is over.
WENT_WELL: Final = frozenset({State.SUCCEEDED, State.HANDED_OVER})


@attrs.frozen(kw_only=True)
class ReplayProgress:
    """How many failures of a replay are where.

    *released* have begun, or will within a `STEP`; *failing* of these have failed an attempt and
    wait for a retry. *is_collected* says that no others are to come. What a backfill has *left out*
    was never among them: a calendar or a blackout window keeps it from running.
    """

    waiting: int = 0
    released: int = 0
    failing: int = 0
    succeeded: int = 0
    failed: int = 0
    refused: int = 0
    left_out: int = 0
    is_collected: bool = False

    @property
    def begun(self) -> int:
        return self.released + self.succeeded + self.failed

    @property
    def bad(self) -> int:
        """How many of the judged go badly."""
        return self.failed + self.failing

    @property
    def judged(self) -> int:
        """How many are known to go well or badly."""
        return self.succeeded + self.bad


@attrs.frozen(kw_only=True)
class Replay:
    """An order, and how far it has come.

    *up_to* is the last row of the archive when it was ordered, *collected_to* the last that was
    looked at; of a backfill these are seconds since 1970. *reason* says why it stopped, how it
    ended, or what it waits for.
    """

    id: int
    order: ReplayOrder | BackfillOrder
    created_at: datetime
    up_to: int
    collected_to: int = 0
    state: ReplayState = ReplayState.ACTIVE
    reason: str | None = None
    next_at: datetime
    ended_at: datetime | None = None
    progress: ReplayProgress = attrs.field(factory=ReplayProgress)

    @property
    def is_collected(self) -> bool:
        """Whether all that it is about is known."""
        return self.collected_to >= self.up_to


def halted(replay: Replay, reason: str, *, now: datetime) -> Replay:
    """Stop a replay that goes on."""
    if replay.state is not ReplayState.ACTIVE:
        return replay
    return attrs.evolve(replay, state=ReplayState.STOPPED, reason=reason, ended_at=now)


def resumed(replay: Replay, *, now: datetime) -> Replay:
    """Let a stopped replay go on. A person has looked at it: its rules to stop hold no more."""
    if replay.state is not ReplayState.STOPPED:
        return replay
    return attrs.evolve(
        replay,
        order=attrs.evolve(replay.order, canary=0, stop_at=None),
        state=ReplayState.ACTIVE,
        reason=None,
        next_at=now,
        ended_at=None,
    )


@attrs.frozen(kw_only=True)
class Release:
    """As many may begin as there are moments; look again at *next_at*."""

    begins: tuple[datetime, ...]
    next_at: datetime
    waits_for: str | None = None

    def looks_again_at(self, begun: int, now: datetime) -> datetime:
        """Say when to look again if only so many could begin: those of full keys wait for ends.

        The moment of the first that could not begin is the soonest for whatever begins next.
        """
        if begun >= len(self.begins):
            return self.next_at
        return max(self.begins[begun], now + FULL_FOR)


@attrs.frozen
class Halt:
    """It ends: in this state, and why."""

    state: ReplayState
    reason: str


ReplayStep: TypeAlias = Release | Halt


def next_step(
    order: Pacing,
    progress: ReplayProgress,
    *,
    next_at: datetime,
    now: datetime,
    random_fraction: Callable[[], float],
) -> ReplayStep:
    """Decide how a replay goes on; the next may begin at *next_at*, or now if that is past."""
    if (stopped := _why_stopped(order, progress)) is not None:
        return Halt(ReplayState.STOPPED, stopped)
    if progress.is_collected and not progress.waiting and not progress.released:
        return Halt(ReplayState.DONE, _say_result(order, progress))
    most = progress.waiting
    if progress.begun < order.canary:
        most = min(most, order.canary - progress.begun)
    elif order.canary and progress.judged < order.canary:
        waiting = order.canary - progress.judged
        return _look_again(now, f"the canary: {waiting} of {order.canary} are not judged yet")
    if not most:
        return _look_again(now)
    first = now if _is_from_a_leap(order, next_at, now) else max(next_at, now)
    return _released(order, most, first=first, now=now, random_fraction=random_fraction)


def is_due(replay: Replay, now: datetime) -> bool:
    return replay.next_at <= now or _is_from_a_leap(replay.order, replay.next_at, now)


def _is_from_a_leap(order: Pacing, next_at: datetime, now: datetime) -> bool:
    """Tell whether a look is so far ahead that a clock was set back since."""
    longest_gap = timedelta(seconds=(1 + order.jitter) / order.rate)
    return next_at - now > max(FARTHEST, 2 * longest_gap)


def _why_stopped(order: Pacing, progress: ReplayProgress) -> str | None:
    enough = order.canary or FEWEST_JUDGED
    if order.stop_at is None or progress.judged < enough:
        return None
    if progress.bad <= order.stop_at * progress.judged:
        return None
    which = "canary" if progress.begun <= order.canary else "error rate"
    bad, most = f"{progress.bad} of {progress.judged}", f"{100 * order.stop_at:g} %"
    return f"{which}: {bad} went badly, and at most {most} may"


def _released(
    order: Pacing,
    most: int,
    *,
    first: datetime,
    now: datetime,
    random_fraction: Callable[[], float],
) -> Release:
    """Fix the beginnings of the next step; a gap is never shorter than the rate allows."""
    begins = list[datetime]()
    at = first
    while at < now + STEP and len(begins) < most:
        begins.append(at)
        at += timedelta(seconds=(1 + order.jitter * random_fraction()) / order.rate)
    return Release(begins=tuple(begins), next_at=at)


def _look_again(now: datetime, waits_for: str | None = None) -> Release:
    return Release(begins=(), next_at=now + STEP, waits_for=waits_for)


def _say_result(order: Pacing, progress: ReplayProgress) -> str:
    is_backfill = isinstance(order, BackfillOrder)
    failed = "failed" if is_backfill else "failed again"
    said = f"{progress.succeeded} succeeded, {progress.failed} {failed}"
    if progress.refused:
        why = "had a run before" if is_backfill else "could not be replayed"
        said += f", {progress.refused} {why}"
    if progress.left_out:
        said += f", {progress.left_out} left out by calendars or blackout windows"
    return said


def time_left(order: Pacing, progress: ReplayProgress, *, elapsed: timedelta) -> timedelta | None:
    """Estimate by the pace so far, *elapsed* since the order, and by its rate, which is a bound.

    None while there is too little to tell it by.
    """
    ended = progress.succeeded + progress.failed
    if not progress.is_collected or ended < FEWEST_JUDGED:
        return None
    by_pace = elapsed * ((progress.waiting + progress.released) / ended)
    return max(by_pace, timedelta(seconds=progress.waiting / order.rate))
