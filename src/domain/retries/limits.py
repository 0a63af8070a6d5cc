"""The limits of retries: the budget of a queue, and the circuit breaker of a task.

A queue is granted so many retries within any window of its length; only grants count (C22). A retry
that finds the budget spent is deferred to the next free place, or fails for good as in S2.10.

The S and C numbers are lines of docs/compatibility.md.
"""

import enum
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

from ..nodes import was_ahead
from ..texts.moments import say_moment
from ..texts.words import called
from .retry import Fail, RetryAfter

#: The bounds of a budget.
LARGEST_BUDGET: Final = 1_000_000
LONGEST_BUDGET_WINDOW: Final = timedelta(days=1)

#: A retry whose place is farther away fails instead.
LONGEST_DEFERRAL: Final = timedelta(days=7)

#: The grants of a larger budget are kept as if made at the end of one of so many parts of a window.
#: A window may then hold less, and never more.
PARTS: Final = 128

#: What stands between the reason of a retry and that of its deferral.
DEFERRED: Final = "; deferred: "

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class OnExhausted(enum.StrEnum):
    """What becomes of a retry that finds the budget spent."""

    DEFER = "defer"
    FAIL = "fail"


@attrs.frozen(kw_only=True)
class BudgetPolicy:
    """How many retries of a queue are granted within any *window*, and what becomes of others."""

    most: int = 100  # `maxRetriesPerMinute` and `windowMs` of S2.10
    window: timedelta = timedelta(seconds=60)
    on_exhausted: OnExhausted = OnExhausted.DEFER


def catch_up_policy(most: int) -> BudgetPolicy | None:
    """Give the budget of *most* late runs in a minute; 0 is for any number."""
    return BudgetPolicy(most=most, window=timedelta(minutes=1)) if most else None


@attrs.frozen(kw_only=True)
class Budget:
    """What a queue was granted: at most *most* within any *window*, as whoever asked last has it.

    *grants* are moments with their numbers, oldest first; those to come were deferred.
    *spent_since* is when a retry found it spent; None again once half of it is free. *granted_at*
    is when it granted something last, and not for when.
    """

    queue: str
    most: int
    window: timedelta
    grants: tuple[tuple[datetime, int], ...] = ()
    spent_since: datetime | None = None
    granted_at: datetime | None = None

    def as_of(self, now: datetime) -> "Budget":
        """Forget what a clock that leapt ahead granted: it would be spent for as long as that."""
        if self.granted_at is None or not was_ahead(self.granted_at, now):
            return self
        grants = tuple(each for each in self.grants if each[0] <= now)
        return attrs.evolve(self, grants=grants, spent_since=None, granted_at=now)

    @property
    def last(self) -> datetime | None:
        return self.grants[-1][0] if self.grants else None

    def remaining(self, now: datetime) -> int:
        """Count what can be granted now: `getRemainingBudget` of S2.10, never below 0.

        None, if places to come are given: by more than rounding, and what clocks differ by.
        """
        is_given_ahead = self.last is not None and self.last - now >= self._part
        return 0 if is_given_ahead else max(self.most - self._granted_since(now - self.window), 0)

    def free_at(self, now: datetime) -> datetime:
        """Give the next free place: now, or one after all that are given.

        A window is half open: a place is free again when its grant is a whole window old.
        """
        if self.remaining(now):
            return now
        last = max(now, self.last or now)
        surplus, free = self._granted_since(last - self.window) - self.most + 1, last
        for moment, number in self.grants:
            if moment > last - self.window and surplus > 0:
                surplus -= number
                free = moment + self.window
        return self._rounded(max(free, last))

    def staggered_at(self, now: datetime) -> datetime:
        """Give the next free place, apart from the last one: a crowd comes evenly, not in waves."""
        free = self.free_at(now)
        parts = min(self.most, PARTS)
        if free <= now or self.last is None or self.grants[-1][1] < -(-self.most // parts):
            return free
        return max(free, self._rounded(self.last + self.window / parts))

    def granted(self, at: datetime, *, now: datetime) -> "Budget":
        numbers = dict(self.grants)
        at = self._rounded(at)
        numbers[at] = numbers.get(at, 0) + 1
        known_from = max(now, max(numbers) - self._part) - self.window
        kept = sorted(each for each in numbers.items() if each[0] > known_from)
        return attrs.evolve(self, grants=tuple(kept), granted_at=now)

    def without(self, at: datetime) -> "Budget":
        """Take back a grant that nobody has used."""
        numbers = dict(self.grants)
        numbers[self._rounded(at)] -= 1
        return attrs.evolve(self, grants=tuple(each for each in numbers.items() if each[1]))

    @property
    def _part(self) -> timedelta:
        return self.window / PARTS

    def _granted_since(self, moment: datetime) -> int:
        return sum(number for at, number in self.grants if at > moment)

    def _rounded(self, moment: datetime) -> datetime:
        if self.most <= PARTS:
            return moment
        return _EPOCH - (_EPOCH - moment) // self._part * self._part


class Changed(enum.Enum):
    """What changes of a limit."""

    BUDGET_SPENT = enum.auto()
    BUDGET_FREE = enum.auto()
    BREAKER_OPENED = enum.auto()
    BREAKER_PROBED = enum.auto()
    BREAKER_CLOSED = enum.auto()
    SCHEDULE_PAUSED = enum.auto()


@attrs.frozen
class LimitChange:
    """What changed of a limit, to be told once: *of* which queue, task or schedule, in words."""

    what: Changed
    of: str
    text: str


@attrs.frozen
class BudgetAnswer:
    """The *verdict* on a retry, the *budget* after it, and what changed of that."""

    verdict: RetryAfter | Fail
    budget: Budget
    change: LimitChange | None = None


def as_asked(queue: str, known: Budget | None, policy: BudgetPolicy, *, now: datetime) -> Budget:
    if known is None:
        return Budget(queue=queue, most=policy.most, window=policy.window)
    return attrs.evolve(known.as_of(now), most=policy.most, window=policy.window)


def ask_budget(
    budget: Budget, policy: BudgetPolicy, retry: RetryAfter, *, now: datetime
) -> BudgetAnswer:
    """Grant a retry of a budget that is `as_asked`, defer it to its place, or let it fail."""
    place = budget.free_at(now)
    if place <= now:
        granted, since = budget.granted(now, now=now), budget.spent_since
        if since is None or granted.remaining(now) < budget.most // 2:
            return BudgetAnswer(retry, granted)
        text = (
            f"Retries are granted again: {say_budget(budget)} was spent since {say_moment(since)}"
        )
        free = LimitChange(Changed.BUDGET_FREE, budget.queue, text)
        return BudgetAnswer(retry, attrs.evolve(granted, spent_since=None), free)
    spent = f"{say_budget(budget)} is spent until {say_moment(place)}"
    may_wait, change = policy.on_exhausted is OnExhausted.DEFER, None
    if budget.spent_since is None:
        budget = attrs.evolve(budget, spent_since=now)
        text = f"Retries {'are deferred' if may_wait else 'fail'}: {spent}"
        change = LimitChange(Changed.BUDGET_SPENT, budget.queue, text)
    if not may_wait or place - now > LONGEST_DEFERRAL:
        return BudgetAnswer(Fail(f"{spent}: no {retry.reason}"), budget, change)
    deferred = RetryAfter(place - now + retry.delay, f"{retry.reason}{DEFERRED}{spent}")
    return BudgetAnswer(deferred, budget.granted(place, now=now), change)


def say_budget(budget: Budget) -> str:
    """Name a budget, with its size.

    >>> say_budget(Budget(queue="reports", most=100, window=timedelta(seconds=60)))
    'the retry budget of queue reports, 100 per 60 s,'
    """
    seconds = f"{budget.window.total_seconds():g}"
    return f"the retry budget of queue {budget.queue}, {budget.most:,} per {seconds} s,"


#: The reason of what an open breaker lets fail, in the words of S0.12.
ACTIVATED: Final = "Circuit breaker activated"

#: The bounds of a breaker.
ERROR_RATES: Final = (0.01, 0.99)
LEASTS: Final = range(2, 10_000 + 1)
LONGEST_BREAKER_WINDOW: Final = timedelta(days=1)

#: Failures are counted in so many parts of a window, the oldest of which is counted in full.
BREAKER_PARTS: Final = 64


class BreakerState(enum.StrEnum):
    """The states of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@attrs.frozen(kw_only=True)
class BreakerPolicy:
    """When a breaker opens: at an error rate above *error_rate* of *least* attempts or more."""

    error_rate: float = 0.5
    least: int = 10
    window: timedelta = timedelta(seconds=300)
    pause: timedelta = timedelta(seconds=60)

    def trips(self, failed: int, succeeded: int) -> bool:
        attempts = failed + succeeded
        return attempts >= self.least and failed > self.error_rate * attempts

    def enough(self, failed: int) -> int:
        """Give how many successes say that so many failures open nothing, nor soon after."""
        healthy = int(failed * (1 - self.error_rate) / self.error_rate) + 1
        return 2 * max(healthy, self.least)

    def fewest(self, succeeded: int) -> int:
        """Give how many failures open it at least, beside so many successes."""
        above = int(succeeded * self.error_rate / (1 - self.error_rate)) + 1
        return max(above, self.least - succeeded)

    def since(self, now: datetime) -> datetime:
        return self.part_of(now - self.window)

    def part_of(self, moment: datetime) -> datetime:
        part = self.window / BREAKER_PARTS
        return _EPOCH + (moment - _EPOCH) // part * part


@attrs.frozen(kw_only=True)
class Breaker:
    """The circuit breaker of a task, `report 25`, with its *name* in a jobs file (S0.12).

    Where most attempts fail, no retry helps. Once the rate of failures among the attempts of a
    window is too high, it opens: what fails, fails for good, while new runs still start. After a
    pause it is half open: one retry is the probe of all nodes, and after another pause the next
    one. It closes when a probe succeeds, or anything else of the task since.

    *failures* are beginnings of parts of a window, with how many attempts failed in each.
    *judged_at* and *next_failures* say when the rate is to be asked for again: after a while, or at
    so many failures. An open one has *opened_at*, the numbers of that moment, and *probe_at*, the
    end of its pause; a half-open one the execution that is its *probe* as well, and *probe_at* is
    from when another may be. *last_at* is when it changed last.
    """

    task: str
    window: timedelta
    last_at: datetime
    name: str | None = None
    failures: tuple[tuple[datetime, int], ...] = ()
    judged_at: datetime | None = None
    next_failures: int = 0
    opened_at: datetime | None = None
    failed: int = 0
    succeeded: int = 0
    probe_at: datetime | None = None
    probe: int | None = None

    @property
    def said(self) -> str:
        return called(self.task, name=self.name)

    def state(self, now: datetime) -> BreakerState:
        """Tell its state. One that nobody asks for a whole window after its pause is closed.

        So is one that a clock opened which has been set back since.
        """
        if self.opened_at is None or self.probe_at is None or was_ahead(self.last_at, now):
            return BreakerState.CLOSED
        if self.probe is not None:
            return BreakerState.HALF_OPEN
        if now >= self.probe_at + self.window:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self.probe_at else BreakerState.HALF_OPEN

    @property
    def failing(self) -> int:
        return sum(number for _, number in self.failures)

    def failing_since(self, moment: datetime) -> int:
        """Count the failures since then, and what else failed in that part of the window."""
        return sum(
            number for at, number in self.failures if at > moment - self.window / BREAKER_PARTS
        )

    def count(self, policy: BreakerPolicy, now: datetime) -> "Breaker":
        numbers, part, since = dict(self.failures), policy.part_of(now), policy.since(now)
        numbers[part] = numbers.get(part, 0) + 1
        kept = tuple(each for each in sorted(numbers.items()) if since <= each[0] <= now)
        return attrs.evolve(self, failures=kept, window=policy.window)

    def is_to_be_judged(self, policy: BreakerPolicy, now: datetime) -> bool:
        """Tell whether the successes are to be counted: they are many, and counting takes time."""
        if self.failing <= policy.error_rate * policy.least:
            return False
        is_stale = self.judged_at is None or (
            abs(now - self.judged_at) >= policy.window / BREAKER_PARTS
        )
        return is_stale or self.failing >= self.next_failures

    def judged(self, policy: BreakerPolicy, succeeded: int, now: datetime) -> "Breaker":
        """Open it if the rate is too high; if not, note when to judge again."""
        if policy.trips(self.failing, succeeded):
            return attrs.evolve(
                self,
                failures=(),
                judged_at=None,
                opened_at=now,
                failed=self.failing,
                succeeded=succeeded,
                probe_at=now + policy.pause,
                probe=None,
            )
        return attrs.evolve(self, judged_at=now, next_failures=policy.fewest(succeeded))

    def probing(self, execution_id: int, policy: BreakerPolicy, now: datetime) -> "Breaker":
        """Let an execution be the probe, for a pause: it may wait for hours itself."""
        return attrs.evolve(self, probe=execution_id, probe_at=now + policy.pause)

    def closed(self) -> "Breaker":
        return Breaker(task=self.task, name=self.name, window=self.window, last_at=self.last_at)


@attrs.frozen(kw_only=True)
class RetryLimits:
    """Which limits the ledger holds a retry against; None for none."""

    budget: BudgetPolicy | None = None
    breaker: BreakerPolicy | None = None


#: Retries as many as their policies say: nothing is asked, and nothing written.
UNLIMITED = RetryLimits()

#: What nobody has asked for so long holds nothing back: longer than any window and any pause, both
#: of them together, and the longest deferral and its window.
IDLE_FOR = LONGEST_DEFERRAL + LONGEST_BUDGET_WINDOW + timedelta(days=1)
