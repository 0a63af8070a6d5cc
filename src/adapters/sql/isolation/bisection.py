"""Asking for less where one of many cannot be had: a batch in ever smaller parts."""

import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import attrs

from ..dialect import Locked
from ..transactions.lock_waits import (
    LOCKED_BUDGET,
    LockWaitBudget,
    limit_lock_wait,
)

Q = TypeVar("Q")
A = TypeVar("A")
P = TypeVar("P")
E = TypeVar("E", bound=Exception)


@attrs.frozen
class BatchResult(Generic[A]):
    """What one transaction has answered, and of which ids it has *written* a row.

    Only that tells that a rule lets others pass: who finds nothing to change is not refused.
    """

    answers: Sequence[A]
    written: Collection[int] = ()

    def __add__(self, other: "BatchResult[A]") -> "BatchResult[A]":
        """Join the answers of two parts."""
        return BatchResult([*self.answers, *other.answers], {*self.written, *other.written})


@attrs.frozen
class OnLocked(Generic[Q, A]):
    """What is answered for a question that has to be asked again: others hold what it needs.

    *hurry* says whether it is waited for. What is not even asked, as so many others were held, is
    answered by *unasked*, or likewise; unless *finds_again* says that whoever asks finds it by
    himself.
    """

    answer: Callable[[Q], A]
    budget: LockWaitBudget = attrs.field(factory=LockWaitBudget)
    finds_again: bool = attrs.field(default=False, kw_only=True)
    unasked: Callable[[Q], A] | None = attrs.field(default=None, kw_only=True)

    @contextmanager
    def limited_wait(self) -> Iterator[None]:
        """Wait for locks as long as it is reasonable now."""
        try:
            with limit_lock_wait(self.budget.seconds):
                yield
        except Locked:
            self.budget.note()
            raise


def bisect(
    asked: Sequence[Q],
    ask: Callable[[Sequence[Q]], P],
    errors: tuple[type[E], ...],
    alone: Callable[[Q, E], A],
) -> Sequence[P | A]:
    """Ask all at once; after one of *errors* each half, down to who is answered by *alone*.

    Which half is the first is left to chance: nobody asks for long in vain, and another time others
    are asked.
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
    """Ask by halves where a lock is waited for in vain: gaps and rows that cannot be passed over.

    Once those that were held alone have taken long the rest is not asked.
    """
    left = LOCKED_BUDGET
    unasked = on_locked.unasked or on_locked.answer

    def attempt(asked: Sequence[Q]) -> BatchResult[A]:
        nonlocal left
        if left <= 0:
            return BatchResult([] if on_locked.finds_again else [unasked(one) for one in asked])
        began = monotonic()
        try:
            with on_locked.limited_wait():
                return ask(asked)
        except Locked:
            if len(asked) < 2:  # noqa: PLR2004 - it is alone
                left -= monotonic() - began
            raise

    def told_to_wait(one: Q, _: Locked) -> BatchResult[A]:
        return BatchResult([on_locked.answer(one)])

    def halve(asked: Sequence[Q]) -> BatchResult[A]:
        return sum(bisect(asked, attempt, (Locked,), told_to_wait), BatchResult[A](()))

    return halve
