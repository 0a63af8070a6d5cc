"""Asking a batch of which others keep some locked."""

from collections.abc import Sequence

from cronhare.adapters.sql.dialect import Locked
from cronhare.adapters.sql.isolation.bisection import BatchResult, OnLocked, bisect_locked


class Locker:
    """Keeps some locked, each of which takes so many seconds to ask for."""

    def __init__(self, locked: set[int], seconds: float) -> None:
        self.passed = 0.0
        self._locked = locked
        self._seconds = seconds

    def ask(self, asked: Sequence[int]) -> BatchResult[str]:
        if self._locked.intersection(asked):
            self.passed += self._seconds
            raise Locked("somebody keeps rows locked")
        return BatchResult(["done" for _ in asked], set(asked))

    def answers(self, asked: Sequence[int]) -> Sequence[str]:
        on_locked = OnLocked[int, str](lambda _: "locked", unasked=lambda _: "not asked")
        return bisect_locked(self.ask, on_locked, lambda: self.passed)(asked).answers


def test_where_nobody_waits_for_long_all_are_asked_however_many_are_locked() -> None:
    asked = range(100)

    answers = Locker(set(asked) - {70}, 0.01).answers(asked)

    assert answers == ["locked"] * 70 + ["done"] + ["locked"] * 29


def test_what_is_not_asked_for_the_time_that_others_took_is_told_apart() -> None:
    answers = Locker(set(range(64)), 1.0).answers(range(64))

    assert answers.count("locked") == 5
    assert answers.count("not asked") == 59
