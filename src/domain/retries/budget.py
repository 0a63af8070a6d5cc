"""The retry budget of a queue: so many retries are granted within any window of its length.

Only grants count (C22 in docs/compatibility.md). A retry that finds the budget spent is deferred to
the next free place in the window, or fails for good as in S2.10.
"""

import enum
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

from ..texts.moments import say_moment
from .leaps import was_ahead
from .retry import Fail, RetryAfter

#: `maxRetriesPerMinute` and `windowMs` of S2.10.
DEFAULT_MOST: Final = 100
DEFAULT_WINDOW: Final = timedelta(seconds=60)

#: The bounds of a budget.
LARGEST: Final = 1_000_000
LONGEST_WINDOW: Final = timedelta(days=1)

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

    most: int = DEFAULT_MOST
    window: timedelta = DEFAULT_WINDOW
    on_exhausted: OnExhausted = OnExhausted.DEFER


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
        """The latest grant."""
        return self.grants[-1][0] if self.grants else None

    def remaining(self, now: datetime) -> int:
        """Count what can be granted now: `getRemainingBudget` of S2.10, never below 0."""
        if self._is_given_ahead(now):
            return 0
        return max(self.most - self._granted_since(now - self.window), 0)

    def free_at(self, now: datetime) -> datetime:
        """Give the next free place: now, or one after all that are given.

        A window is half open: a place is free again when its grant is a whole window old.
        """
        if self.remaining(now):
            return now
        last = max(now, self.last or now)
        surplus = self._granted_since(last - self.window) - self.most + 1
        free = last
        for moment, number in self.grants:
            if moment <= last - self.window:
                continue
            if surplus <= 0:
                break
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
        """Note a grant, and forget what no later one has to know."""
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

    def _is_given_ahead(self, now: datetime) -> bool:
        """Whether places to come are given: by more than rounding, and what clocks differ by."""
        return self.last is not None and self.last - now >= self._part

    def _granted_since(self, moment: datetime) -> int:
        return sum(number for at, number in self.grants if at > moment)

    def _rounded(self, moment: datetime) -> datetime:
        if self.most <= PARTS:
            return moment
        return _EPOCH - (_EPOCH - moment) // self._part * self._part


@attrs.frozen(kw_only=True)
class BudgetSpent:
    """A retry was the first to find the *budget* spent; the next place is free at *free_at*."""

    budget: Budget
    on_exhausted: OnExhausted
    free_at: datetime


@attrs.frozen(kw_only=True)
class BudgetFree:
    """Half of a *budget* that was spent is free again; *spent_since* is when it was found so."""

    budget: Budget
    spent_since: datetime


@attrs.frozen(kw_only=True)
class BudgetAnswer:
    """The *verdict* on a retry, the *budget* after it, and what changed of that."""

    verdict: RetryAfter | Fail
    budget: Budget
    change: BudgetSpent | BudgetFree | None = None


def as_asked(queue: str, known: Budget | None, policy: BudgetPolicy, *, now: datetime) -> Budget:
    """Give a queue's budget as *policy* has it now: the one that is *known*, or a fresh one."""
    if known is None:
        return Budget(queue=queue, most=policy.most, window=policy.window)
    return attrs.evolve(known.as_of(now), most=policy.most, window=policy.window)


def ask_budget(
    budget: Budget, policy: BudgetPolicy, retry: RetryAfter, *, now: datetime
) -> BudgetAnswer:
    """Grant a retry of a budget that is `as_asked`, defer it, or let it fail.

    A deferred one waits for its place, and then for its own delay: a wave is spread at exactly the
    rate, whatever the delay.
    """
    place = budget.free_at(now)
    if place <= now:
        return _grant(budget.granted(now, now=now), retry, now)
    change = None
    if budget.spent_since is None:
        budget = attrs.evolve(budget, spent_since=now)
        change = BudgetSpent(budget=budget, on_exhausted=policy.on_exhausted, free_at=place)
    spent = f"{said(budget)} is spent until {say_moment(place)}"
    if policy.on_exhausted is OnExhausted.FAIL or place - now > LONGEST_DEFERRAL:
        return BudgetAnswer(
            verdict=Fail(f"{spent}: no {retry.reason}"), budget=budget, change=change
        )
    deferred = RetryAfter(place - now + retry.delay, f"{retry.reason}{DEFERRED}{spent}")
    return BudgetAnswer(verdict=deferred, budget=budget.granted(place, now=now), change=change)


def has_place(budget: Budget, *, now: datetime) -> bool:
    """Tell whether `ask_budget` would grant a retry now, neither defer it nor let it fail."""
    return budget.free_at(now) <= now


def said(budget: Budget) -> str:
    """Name a budget, with its size.

    >>> said(Budget(queue="reports", most=100, window=timedelta(seconds=60)))
    'the retry budget of queue reports, 100 per 60 s,'
    """
    seconds = f"{budget.window.total_seconds():g}"
    return f"the retry budget of queue {budget.queue}, {budget.most:,} per {seconds} s,"


def _grant(budget: Budget, retry: RetryAfter, now: datetime) -> BudgetAnswer:
    since = budget.spent_since
    if since is None or budget.remaining(now) < budget.most // 2:
        return BudgetAnswer(verdict=retry, budget=budget)
    free = attrs.evolve(budget, spent_since=None)
    return BudgetAnswer(
        verdict=retry, budget=free, change=BudgetFree(budget=free, spent_since=since)
    )
