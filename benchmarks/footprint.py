"""What a scheduler keeps in memory: each size is measured in a process of its own."""

import multiprocessing
import re
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from dependency_injector import providers
from figures import Figure
from rig import Ledgers, opened
from samples import BUSY, QUIET, size

from cronhare.adapters.memory.broker import MemoryBroker
from cronhare.ports.broker import Envelope, Published
from tests.frozen_clock import FrozenClock

FEW, MANY = size((10_000, 100_000), (60, 60))

#: The table may grow tenfold, and the memory by so much.
FLAT = 1.2


class Sink(MemoryBroker):
    """Confirms, and keeps nothing: what waits in a queue is not the scheduler's."""

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        return [Published.CONFIRMED] * len(batch)


def memory(ledgers: Ledgers) -> list[Figure]:
    """Dispatch 10,000 out of 10,000 and out of 100,000, and all of the 100,000."""
    small = _peak(ledgers, FEW, FEW, _peak_of_process)
    large = _peak(ledgers, MANY, FEW, _peak_of_process)
    largest = _peak(ledgers, MANY, MANY, _peak_of_process)
    few_objects = _peak(ledgers, FEW, FEW, _peak_of_objects)
    objects = _peak(ledgers, MANY, FEW, _peak_of_objects)
    return [
        Figure(what="10,000 due of 10,000, whole process", ours=small, unit="MB", note="the peak"),
        _figure("10,000 due of 100,000, whole process", large, small),
        _figure("100,000 due of 100,000, whole process", largest, small),
        Figure(what="10,000 due of 10,000, objects", ours=few_objects, unit="MB", note="the peak"),
        _figure("10,000 due of 100,000, objects", objects, few_objects),
    ]


def _figure(what: str, peak: float, smallest: float) -> Figure:
    growth = f"{peak / smallest:.2f} times the smallest"
    return Figure(what=what, ours=peak, unit="MB", goal=smallest * FLAT, note=growth)


def _peak(ledgers: Ledgers, count: int, busy: int, measure: Callable[[Path], float]) -> float:
    """Give the most that was held at a time, in MB."""
    with ledgers.copy(count, busy=busy) as path:
        return _alone(measure, path)


def _alone(measure: Callable[[Path], float], path: Path) -> float:
    """Measure in a fresh process: a peak never goes down again."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=fresh) as pool:
        return pool.submit(measure, path).result()


def _peak_of_process(path: Path) -> float:
    _dispatch(path)
    # Not getrusage: what it tells of a child begins with what its parent had.
    [line] = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) * 1024 / 1e6


def _peak_of_objects(path: Path) -> float:
    tracemalloc.start()
    _dispatch(path)
    _, peak = tracemalloc.get_traced_memory()
    return peak / 1e6


def _dispatch(path: Path) -> None:
    """Start beside a table whose schedules are planned, and meet the busy minute."""
    clock = FrozenClock(QUIET)
    with opened(path, clock) as container:
        container.broker.override(providers.Object(Sink(clock)))
        container.dispatcher().tick(QUIET)
        clock.move_to(BUSY)
        container.dispatcher().tick(BUSY)
