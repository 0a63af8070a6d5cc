"""Asking for less where one of many cannot be had: a batch in ever smaller parts."""

import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import attrs

from ..dialect import Locked
from ..transactions.lock_waits import LONGEST_IN_VAIN, Hurry, waiting_once

Q = TypeVar("Q")
A = TypeVar("A")
P = TypeVar("P")
E = TypeVar("E", bound=Exception)


@attrs.frozen
class Answers(Generic[A]):
    """What one transaction has answered, and of which ids it has *written* a row.

    Only that tells that a rule lets others pass: who finds nothing to change is not refused.
    """

    given: Sequence[A]
    written: Collection[int] = ()

    def __add__(self, other: "Answers[A]") -> "Answers[A]":
        """Join the answers of two parts."""
        return Answers([*self.given, *other.given], {*self.written, *other.written})


@attrs.frozen
class Waiting(Generic[Q, A]):
    """What is answered for a question that has to be asked again: others hold what it needs.

    *hurry* says whether it is waited for. What is not even asked, as so many others were held, is
    answered by *unasked*, or likewise; unless *finds_again* says that whoever asks finds it by
    himself.
    """

    answer: Callable[[Q], A]
    hurry: Hurry = attrs.field(factory=Hurry)
    finds_again: bool = attrs.field(default=False, kw_only=True)
    unasked: Callable[[Q], A] | None = attrs.field(default=None, kw_only=True)

    @contextmanager
    def hurrying(self) -> Iterator[None]:
        """Wait for locks as long as it is reasonable now."""
        try:
            with waiting_once(self.hurry.seconds):
                yield
        except Locked:
            self.hurry.note()
            raise


def halved(
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
    found = {place: halved(halves[place], ask, errors, alone) for place in random.sample((0, 1), 2)}
    return [*found[0], *found[1]]


def not_waiting(
    ask: Callable[[Sequence[Q]], Answers[A]],
    waiting: Waiting[Q, A],
    monotonic: Callable[[], float] = time.monotonic,
) -> Callable[[Sequence[Q]], Answers[A]]:
    """Ask by halves where a lock is waited for in vain: gaps and rows that cannot be passed over.

    Once those that were held alone have taken long the rest is not asked.
    """
    left = LONGEST_IN_VAIN
    unasked = waiting.unasked or waiting.answer

    def attempt(asked: Sequence[Q]) -> Answers[A]:
        nonlocal left
        if left <= 0:
            return Answers([] if waiting.finds_again else [unasked(one) for one in asked])
        began = monotonic()
        try:
            with waiting.hurrying():
                return ask(asked)
        except Locked:
            if len(asked) < 2:  # noqa: PLR2004 - it is alone
                left -= monotonic() - began
            raise

    def told_to_wait(one: Q, _: Locked) -> Answers[A]:
        return Answers([waiting.answer(one)])

    def halve(asked: Sequence[Q]) -> Answers[A]:
        return sum(halved(asked, attempt, (Locked,), told_to_wait), Answers[A](()))

    return halve
