"""Remembering what has been understood of cells, within a bound of bytes.

An `lru_cache` counts entries: twelve edits of a cell of 8 MB would keep 100 MB. What is large is
understood anew each time; it is rare, and refused by what reads it.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from sys import getsizeof
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

#: A question of more bytes is not remembered. A cache keeps at most so much, times its entries.
LARGEST_CACHED: Final = 2_048

#: So many answers are remembered.
TIMES_CACHED, RUN_OPTIONS_CACHED, TASKS_CACHED, POLICIES_CACHED = 4_096, 1_024, 1_024, 1_024


class _TooLarge(Exception, Generic[T]):
    """An answer, on the one way past the cache."""

    def __init__(self, answer: T) -> None:
        super().__init__(answer)
        self.answer = answer


def cached(entries: int) -> Callable[[Callable[[Any], T]], Callable[[Any], T]]:
    """Remember the answers to *entries* small questions: texts, or tuples of cells."""

    def decorate(call: Callable[[Any], T]) -> Callable[[Any], T]:
        @lru_cache(maxsize=entries)
        def remembered(question: Any) -> T:  # noqa: ANN401 - whatever a cell may hold
            answer = call(question)
            if _size(question) > LARGEST_CACHED:
                raise _TooLarge(answer)
            return answer

        @wraps(call)
        def ask(question: Any) -> T:  # noqa: ANN401
            try:
                return remembered(question)
            except _TooLarge as large:
                answer: T = large.answer
                return answer

        return ask

    return decorate


def _size(question: object) -> int:
    return sum(map(getsizeof, question)) if isinstance(question, tuple) else getsizeof(question)
