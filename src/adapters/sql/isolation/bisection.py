"""Bisection of a batch: what fails together is tried again in halves, down to single items."""

import random
import time
from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

import attrs

from ..dialect import Locked
from ..transactions.lock_waits import LOCKED_BUDGET, LockWaitBudget

Q = TypeVar("Q")
A = TypeVar("A")
P = TypeVar("P")
E = TypeVar("E", bound=Exception)


@attrs.frozen
class BatchResult(Generic[A]):
    """The answers of one transaction, and the ids of the rows that it has *written*.

    Only a written row proves that a rule accepts others: a transaction that found nothing to change
    was not refused either.
    """

    answers: Sequence[A]
    written: Collection[int] = ()

    def __add__(self, other: "BatchResult[A]") -> "BatchResult[A]":
        """Join the results of two parts."""
        return BatchResult([*self.answers, *other.answers], {*self.written, *other.written})


@attrs.frozen
class OnLocked(Generic[Q, A]):
    """What to *answer* for an item whose rows another transaction keeps locked.

    *budget* says how long to wait for a lock. Items that were not asked for, as the locked ones
    before them took too long, are answered by *unasked*, which is *answer* by default; or by
    nothing if *finds_again*: the caller's next look finds them.
    """

    answer: Callable[[Q], A]
    budget: LockWaitBudget = attrs.field(factory=LockWaitBudget)
    finds_again: bool = attrs.field(default=False, kw_only=True)
    unasked: Callable[[Q], A] | None = attrs.field(default=None, kw_only=True)


def bisect(
    asked: Sequence[Q],
    ask: Callable[[Sequence[Q]], P],
    errors: tuple[type[E], ...],
    alone: Callable[[Q, E], A],
) -> Sequence[P | A]:
    """Ask for all at once; after one of *errors* for each half; *alone* answers for single items.

    Which half comes first is random: what is never reached this time may be reached the next time.
    """
    try:
        return [ask(asked)]
    except errors as raised:
        if len(asked) < 2:  # noqa: PLR2004 - nothing is left to be halved
            return [alone(one, raised) for one in asked]
    middle = len(asked) // 2
    halves = asked[:middle], asked[middle:]
    found = {place: bisect(halves[place], ask, errors, alone) for place in random.sample((0, 1), 2)}
    return [*found[0], *found[1]]


def bisect_locked(
    ask: Callable[[Sequence[Q]], BatchResult[A]],
    on_locked: OnLocked[Q, A],
    monotonic: Callable[[], float] = time.monotonic,
) -> Callable[[Sequence[Q]], BatchResult[A]]:
    """Wrap *ask*: a batch that waits for a lock in vain is bisected.

    Needed for gaps, and for rows that `SKIP LOCKED` cannot leave out. Once single locked items have
    taken `LOCKED_BUDGET` seconds, the rest is not asked for.
    """
    left = LOCKED_BUDGET
    unasked = on_locked.unasked or on_locked.answer

    def attempt(asked: Sequence[Q]) -> BatchResult[A]:
        nonlocal left
        if left <= 0:
            return BatchResult([] if on_locked.finds_again else [unasked(one) for one in asked])
        began = monotonic()
        try:
            with on_locked.budget.limited_wait():
                return ask(asked)
        except Locked:
            if len(asked) < 2:  # noqa: PLR2004 - a single item
                left -= monotonic() - began
            raise

    def locked_alone(one: Q, _: Locked) -> BatchResult[A]:
        return BatchResult([on_locked.answer(one)])

    def ask_bisecting(asked: Sequence[Q]) -> BatchResult[A]:
        return sum(bisect(asked, attempt, (Locked,), locked_alone), BatchResult[A](()))

    return ask_bisecting
