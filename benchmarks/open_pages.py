"""What ten open pages cost the dispatch, in pairs within one run."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Final

import attrs
from figures import Figure
from full_ledger import FullLedger
from rig import opened
from samples import TRUE
from sqlalchemy import Engine
from web_client import cpu_of_process, cronhare_web, open_pages

from cronhare.adapters.memory.clock import FrozenClock
from cronhare.application.scheduling.dispatch import Dispatcher
from cronhare.domain.schedules.draft import ScheduleDraft

DUE: Final = 10_000
PAIRS: Final = 7
PAGES: Final = 10
LIVE: Final = "/ui/live?feed=now"
_MINUTE: Final = timedelta(minutes=1)


@attrs.define
class BusyMinutes:
    """Meets one busy minute after the other."""

    dispatcher: Dispatcher
    clock: FrozenClock
    engine: Engine

    def dispatch(self) -> tuple[float, float]:
        """Go on to the next minute; gives seconds, and seconds of CPU."""
        self.clock.advance(_MINUTE)
        gc.collect()
        began, cpu = time.perf_counter(), time.process_time()
        tick = self.dispatcher.tick(self.clock.now())
        seconds = time.perf_counter() - began, time.process_time() - cpu
        assert tick.published >= DUE, tick
        return seconds


@contextmanager
def busy_minutes(path: Path) -> Iterator[BusyMinutes]:
    """Add schedules that are due every minute, in a file that may be changed."""
    clock = FrozenClock(datetime.now(UTC).replace(second=0, microsecond=0) + _MINUTE)
    with opened(path, clock) as container:
        made = [
            ScheduleDraft(name=f"busy-{number:05d}", task=TRUE.ref, schedule="* * * * *")
            for number in range(DUE)
        ]
        container.schedules().save(made, source=None, now=clock.now())
        container.dispatcher().tick(clock.now())
        minutes = BusyMinutes(container.dispatcher(), clock, container.engine())
        minutes.dispatch()  # warms up
        yield minutes


def beside_open_pages(ledger: FullLedger) -> list[Figure]:
    """Dispatch 10,000 of 110,000 with ten pages open and with none, in turns."""
    pairs = list[tuple[tuple[float, float], tuple[float, float]]]()
    with (
        ledger.copy() as path,
        cronhare_web(path, ledger.folder) as (port, pid),
        busy_minutes(path) as minutes,
    ):
        for pair in range(PAIRS):
            found = {}
            for opens in (True, False) if pair % 2 else (False, True):
                pages = open_pages(port, PAGES, LIVE) if opens else nullcontext()
                with pages:
                    time.sleep(0.5)  # what the first look costs is over
                    found[opens] = minutes.dispatch()
            pairs.append((found[False], found[True]))
        cost = _cost_of_pages(port, pid)
    wall, cpu = (median(with_[what] / without[what] for without, with_ in pairs) for what in (0, 1))
    without, with_ = (median(pair[place][0] for pair in pairs) for place in (0, 1))
    return [
        Figure(
            what="dispatch 10,000 of 110,000, ten pages open", ours=with_, unit="s",
            note=f"{without:.2f} s without; ratio {wall:.2f}, of CPU {cpu:.2f}, {PAIRS} pairs",
        ),
        Figure(what="CPU of ten open pages, in a second", ours=cost * 1_000, unit="ms",
               note="of `cronhare web`"),
    ]  # fmt: skip


def _cost_of_pages(port: int, pid: int, seconds: float = 10.0) -> float:
    with open_pages(port, PAGES, LIVE):
        time.sleep(1)
        before = cpu_of_process(pid)
        time.sleep(seconds)
        return (cpu_of_process(pid) - before) / seconds
