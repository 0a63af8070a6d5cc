"""A cache of what was read from columns, bounded in bytes.

An `lru_cache` counts entries: twelve edits of a value of 8 MB would keep 100 MB. Large values are
read anew each time; they are rare, and refused by their readers.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from sys import getsizeof
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

#: Larger values, in bytes, are not cached. A cache keeps at most so much, times its entries.
LARGEST_CACHED: Final = 2_048

#: The entries of each cache.
TIMES_CACHED, RUN_OPTIONS_CACHED, TASKS_CACHED, POLICIES_CACHED = 4_096, 1_024, 1_024, 1_024


class _TooLarge(Exception, Generic[T]):
    """Carries an answer past the cache."""

    def __init__(self, answer: T) -> None:
        super().__init__(answer)
        self.answer = answer


def cached(entries: int) -> Callable[[Callable[[Any], T]], Callable[[Any], T]]:
    """Cache the last *entries* answers to small values: texts, or tuples of columns."""

    def decorate(call: Callable[[Any], T]) -> Callable[[Any], T]:
        @lru_cache(maxsize=entries)
        def remembered(question: Any) -> T:  # noqa: ANN401 - whatever a column may hold
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
