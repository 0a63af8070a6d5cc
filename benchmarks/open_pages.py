"""What ten open pages cost the dispatch, in pairs within one run."""

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Final

import attrs
from figures import Figure
from full_ledger import FullLedger
from rig import opened
from samples import TRUE, size
from sqlalchemy import Engine
from web_client import cpu_of_process, cronhare_web, open_pages

from cronhare.application.scheduling.dispatch import Dispatcher
from cronhare.domain.schedules.draft import ScheduleDraft
from tests.frozen_clock import FrozenClock

DUE: Final = size(10_000, 100)
ROUNDS: Final = size(6, 1)
PAGES: Final = size(10, 2)
WATCHED_SECONDS: Final = size(10.0, 0.5)
_MINUTE: Final = timedelta(minutes=1)


#: Of a dispatch: by the clock, and of CPU.
Seconds = tuple[float, float]


@attrs.define
class BusyMinutes:
    """Meets one busy minute after the other."""

    dispatcher: Dispatcher
    clock: FrozenClock
    engine: Engine

    def dispatch(self) -> Seconds:
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
    """Dispatch 10,000 of 110,000 with ten pages open, with none, and with none again, in turns.

    What the last two differ by is the machine's.
    """
    rounds = list[tuple[Seconds, ...]]()
    with (
        ledger.copy() as path,
        cronhare_web(f"sqlite:///{path}", ledger.folder) as (port, pid),
        busy_minutes(path) as minutes,
    ):
        for turn in range(ROUNDS):
            found = dict[int, Seconds]()
            for place in (turn % 3, (turn + 1) % 3, (turn + 2) % 3):
                with open_pages(port, PAGES, "/") if place == 0 else nullcontext():
                    time.sleep(0.5)  # what the first look costs is over
                    found[place] = minutes.dispatch()
            rounds.append(tuple(found[place] for place in range(3)))
        cost = _cost_of_pages(port, pid)
    return [
        Figure(
            what="dispatch 10,000 of 110,000, ten pages open",
            ours=median(each[0][0] for each in rounds), unit="s",
            note=f"with none {median(each[1][0] for each in rounds):.2f} s; {ROUNDS} rounds",
        ),
        *(
            Figure(
                what=f"the ratio of {what}", ours=_ratio(rounds, 0, kind), unit="x",
                note=f"none to none {_ratio(rounds, 2, kind):.2f}",
            )
            for kind, what in enumerate(("time", "CPU"))
        ),
        Figure(what="CPU of ten open pages, in a second", ours=cost * 1_000, unit="ms",
               note="of `cronhare web`"),
    ]  # fmt: skip


def _ratio(rounds: Sequence[tuple[Seconds, ...]], place: int, kind: int) -> float:
    return median(each[place][kind] / each[1][kind] for each in rounds)


def _cost_of_pages(port: int, pid: int) -> float:
    with open_pages(port, PAGES, "/"):
        time.sleep(1)
        before = cpu_of_process(pid)
        time.sleep(WATCHED_SECONDS)
        return (cpu_of_process(pid) - before) / WATCHED_SECONDS
