"""Orders of many runs: replays of failures, backfills of past instants; and how they go on.

After an outage a server is weak: all that failed meanwhile, sent at once, ends it again (S2.12 in
docs/compatibility.md). So they begin one by one, each at a moment of its own.
"""

import enum
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, Final, Literal

import attrs
import msgspec

from ..cron.timeline import EPOCH
from ..execution import State
from ..reading import Fault, Invalid
from ..retries.policy import ATTEMPTS
from ..schedules.schedule import SECOND
from ..schedules.task import TaskRef
from ..texts.moments import say_moment
from ..texts.printable import echo, printable
from ..texts.words import called
from .archive import Archived, FailureFilter

#: Executions a second.
RATES: Final = (0.01, 1_000.0)
DEFAULT_RATE: Final = 10.0
#: By how much of itself a gap between two executions grows at most, by chance.
JITTERS: Final = (0.0, 10.0)
#: Executions of one key that have not ended.
AT_ONCE: Final = range(1, 10_000 + 1)
DEFAULT_AT_ONCE: Final = 5
CANARIES: Final = range(1_000 + 1)
LONGEST_AUTHOR: Final = 255

_BOUNDS: Final = {
    "rate": RATES,
    "jitter": JITTERS,
    "stop_at": (0.0, 1.0),
    "at_once": (AT_ONCE[0], AT_ONCE[-1]),
    "canary": (CANARIES[0], CANARIES[-1]),
    "attempts": (ATTEMPTS[0], ATTEMPTS[-1]),
}

#: What a key may be, but for a path such as `params.customer.id`.
KEYS: Final = ("schedule", "task", "queue")
_PATH: Final = "params."
LONGEST_PATH: Final = 255


@attrs.frozen(kw_only=True)
class Pacing:
    """How runs are spread that begin in the background.

    At most *rate* begin in a second; each gap between two is longer by up to *jitter* of itself, by
    chance. Of those that have one *key* in common at most *at_once* are under way. The first
    *canary* are judged before any other begins. It stops once more than *stop_at* of the judged go
    badly; None never stops. Each has *attempts* in all, or as many as its policy says. *author* is
    who asked.

    Raises:
        Invalid: with all faults at once.
    """

    rate: float = DEFAULT_RATE
    jitter: float = 0.2
    at_once: int = DEFAULT_AT_ONCE
    canary: int = 0
    stop_at: float | None = 0.5
    attempts: int | None = None
    author: str = ""

    def __attrs_post_init__(self) -> None:
        if faults := [*self.faults()]:
            raise Invalid(faults)

    def faults(self) -> Iterator[Fault]:
        for field, (least, most) in _BOUNDS.items():
            value = getattr(self, field)
            if value is not None and not least <= value <= most:
                yield Fault(field, f"{value:.15g} is not {least:g}-{most:,g}")
        if len(self.author) > LONGEST_AUTHOR or self.author != printable(self.author):
            yield Fault("author", f"is to be a line of at most {LONGEST_AUTHOR} letters")


@attrs.frozen(kw_only=True)
class ReplayOrder(Pacing):
    """Which failures to run again, and how they are spread.

    *key* is one of `KEYS`, or a path in their params; without one nothing bounds how many are under
    way.
    """

    which: FailureFilter
    key: str | None = None

    def faults(self) -> Iterator[Fault]:
        if not self.which.unresolved:
            yield Fault("which", "only what is unresolved can be replayed")
        yield from super().faults()
        key = self.key
        if key is None or key in KEYS:
            return
        if not self.reads_params or "" in key.split(".") or key != printable(key):
            yield Fault(
                "key", f"{echo(key)} is neither {', '.join(KEYS)} nor like params.customer.id"
            )
        elif len(key) > LONGEST_PATH:
            yield Fault("key", f"it has {len(key):,} characters, {LONGEST_PATH} are allowed")

    @property
    def reads_params(self) -> bool:
        return self.key is not None and self.key.startswith(_PATH)

    def key_of(self, row: Archived) -> str:
        """Give what a failure has in common with others, as a hash; empty without a key.

        All that lack the path have one key in common: they are not to be the ones without a limit.
        """
        match self.key:
            case None:
                return ""
            case "schedule":
                text = row.schedule_name
            case "task":
                task = TaskRef(row.task_type, row.task_id)
                text = called(task, name=row.task_name, topic=row.topic)
            case "queue":
                text = row.queue
            case path:
                text = _found(row.params, path.removeprefix(_PATH).split("."))
        return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _found(params: str, path: list[str]) -> str:
    try:
        value: Any = msgspec.json.decode(params)
    except (msgspec.DecodeError, RecursionError):
        return ""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


@attrs.frozen(kw_only=True)
class BackfillOrder(Pacing):
    """Which past instants of *schedule* to run, from *since* on and before *until*, by one key."""

    kind: Literal["backfill"] = "backfill"
    scheduler_id: int
    schedule: str
    since: datetime
    until: datetime
    at_once: int = 1

    def faults(self) -> Iterator[Fault]:
        yield from super().faults()
        if self.since.tzinfo is None or self.until.tzinfo is None:
            yield Fault("since", "a time without an offset")
        elif self.since < EPOCH:
            yield Fault("since", f"{say_moment(self.since)} is before 1970")
        elif self.since >= self.until:
            yield Fault("until", f"{say_moment(self.until)} is not after {say_moment(self.since)}")

    @property
    def key(self) -> str:
        return "schedule"

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last second since 1970 in which an instant may be."""
        return second_of(self.since), second_of(self.until) - 1


#: What a person orders.
Order = ReplayOrder | BackfillOrder


def second_of(moment: datetime) -> int:
    """Count the seconds since 1970 up to a moment, or to the next whole second."""
    return -((EPOCH - moment) // SECOND)


def moment_of_second(second: int) -> datetime:
    return EPOCH + second * SECOND


# How an order goes on

#: So far ahead beginnings are fixed at a time, and so soon it is looked again.
STEP: Final = timedelta(seconds=1)

#: So long it is not looked again where all keys are full: the next begins soon after an end.
FULL_FOR: Final = timedelta(milliseconds=200)

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
        return self.failed + self.failing

    @property
    def judged(self) -> int:
        return self.succeeded + self.bad


@attrs.frozen(kw_only=True)
class Replay:
    """An order, and how far it has come.

    *up_to* is the last row of the archive when it was ordered, *collected_to* the last that was
    looked at; of a backfill these are seconds since 1970. *reason* says why it stopped, how it
    ended, or what it waits for.
    """

    id: int
    order: Order
    created_at: datetime
    up_to: int
    collected_to: int = 0
    state: ReplayState = ReplayState.ACTIVE
    reason: str | None = None
    next_at: datetime
    ended_at: datetime | None = None
    progress: ReplayProgress = attrs.field(factory=ReplayProgress)


def halted(replay: Replay, reason: str, *, now: datetime) -> Replay:
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

    begins: tuple[datetime, ...] = ()
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


def next_step(
    order: Order,
    progress: ReplayProgress,
    *,
    next_at: datetime,
    now: datetime,
    random_fraction: Callable[[], float],
) -> Release | Halt:
    """Decide how a replay goes on; the next may begin at *next_at*, or now if that is past."""
    if (stopped := _why_stopped(order, progress)) is not None:
        return Halt(ReplayState.STOPPED, stopped)
    if progress.is_collected and not progress.waiting and not progress.released:
        return Halt(ReplayState.DONE, _say_result(order, progress))
    most, waits_for = progress.waiting, None
    if progress.begun < order.canary:
        most = min(most, order.canary - progress.begun)
    elif progress.judged < order.canary:
        unjudged = order.canary - progress.judged
        most, waits_for = 0, f"the canary: {unjudged} of {order.canary} are not judged yet"
    if not most:
        return Release(next_at=now + STEP, waits_for=waits_for)
    at = max(next_at, now)
    begins = list[datetime]()
    while at < now + STEP and len(begins) < most:
        begins.append(at)
        # A gap is never shorter than the rate allows.
        at += timedelta(seconds=(1 + order.jitter * random_fraction()) / order.rate)
    return Release(begins=tuple(begins), next_at=at)


def _why_stopped(order: Order, progress: ReplayProgress) -> str | None:
    enough = order.canary or FEWEST_JUDGED
    if order.stop_at is None or progress.judged < enough:
        return None
    if progress.bad <= order.stop_at * progress.judged:
        return None
    which = "canary" if progress.begun <= order.canary else "error rate"
    bad, most = f"{progress.bad} of {progress.judged}", f"{100 * order.stop_at:g} %"
    return f"{which}: {bad} went badly, and at most {most} may"


def _say_result(order: Order, progress: ReplayProgress) -> str:
    is_backfill = isinstance(order, BackfillOrder)
    failed = "failed" if is_backfill else "failed again"
    said = f"{progress.succeeded} succeeded, {progress.failed} {failed}"
    if progress.refused:
        why = "had a run before" if is_backfill else "could not be replayed"
        said += f", {progress.refused} {why}"
    if progress.left_out:
        said += f", {progress.left_out} left out by calendars or blackout windows"
    return said


def time_left(order: Order, progress: ReplayProgress, *, elapsed: timedelta) -> timedelta | None:
    """Estimate by the pace so far and by the rate, a bound; None if there is too little."""
    ended = progress.succeeded + progress.failed
    if not progress.is_collected or ended < FEWEST_JUDGED:
        return None
    by_pace = elapsed * ((progress.waiting + progress.released) / ended)
    return max(by_pace, timedelta(seconds=progress.waiting / order.rate))
