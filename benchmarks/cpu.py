"""CPU time, of this process and all of its threads."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def cpu_of(work: Callable[[], T]) -> tuple[T, float]:
    """Do something, and tell what came of it and how many seconds of CPU it took."""
    began = time.process_time()
    done = work()
    return done, time.process_time() - began
