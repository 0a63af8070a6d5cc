"""How far long work has come, for whoever watches it."""

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

#: Is told how many are done, and of how many; from the thread that does them, and often.
OnProgress = Callable[[int, int], None]

T = TypeVar("T")


def unwatched(_done: int, _total: int) -> None:
    """Tell nobody."""


def passing(items: Collection[T], on_progress: OnProgress) -> Iterator[T]:
    total = len(items)
    for done, item in enumerate(items):
        on_progress(done, total)
        yield item
    on_progress(total, total)
