"""A scheduler on an SQLite file of its own, put together as `cronhare up` does it."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import attrs
from dependency_injector import providers
from samples import TRUE, WRITTEN, drafts

from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.processes.lifetime import tune_gc
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.working import WorkingContainer
from cronhare.ports.system import ClockPort
from tests.frozen_clock import FrozenClock


class ShiftedClock:
    """Runs as the machine's does, but from another moment, so that every run sees the same day."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._began = time.monotonic()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=time.monotonic() - self._began)

    def peek(self) -> datetime:
        return self.now()

    def monotonic(self) -> float:
        return time.monotonic()

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Nobody moves it by hand."""


@contextmanager
def opened(path: Path, clock: ClockPort) -> Iterator[WorkingContainer]:
    """Give everything that works on the ledger at *path*, the time coming from *clock*."""
    settings = attrs.evolve(Settings.read(), database_url=f"sqlite:///{path}")
    container = WorkingContainer(
        settings=settings,
        tasks=providers.Object((TRUE,)),
        queues=providers.Object((MAIN_QUEUE,)),
    )
    container.clock.override(providers.Object(clock))
    tune_gc()  # as the processes do
    try:
        yield container
    finally:
        container.broker().close()
        container.ledger_threads().shutdown()
        container.engine().dispose()


@attrs.frozen
class Ledgers:
    """Ledgers with schedules in them: each kind is filled once, and used as a fresh copy.

    *planning_seconds* keeps what the first planning of each kind's table took.
    """

    folder: Path
    planning_seconds: dict[tuple[int, int, int], float] = attrs.field(factory=dict)

    @contextmanager
    def copy(self, count: int, *, busy: int, keys: int = 0) -> Iterator[Path]:
        """Give a file with *count* planned schedules, of which *busy* are due at `BUSY`.

        They share so many concurrency *keys*, if any.
        """
        original = self._filled(count, busy, keys)
        path = self.folder / "copy.sqlite3"
        shutil.copyfile(original, path)
        try:
            yield path
        finally:
            for left in self.folder.glob("copy.sqlite3*"):
                left.unlink()

    def _filled(self, count: int, busy: int, keys: int) -> Path:
        path = self.folder / f"{count}-{busy}-{keys}.sqlite3"
        if (count, busy, keys) not in self.planning_seconds:
            clock = FrozenClock(WRITTEN)
            with opened(path, clock) as container:
                upgrade(container.engine(), WRITTEN)
                made = drafts(count, busy=busy, keys=keys)
                container.schedules().save(made, source=None, now=WRITTEN)
                began = time.perf_counter()
                container.dispatcher().tick(WRITTEN)
                self.planning_seconds[count, busy, keys] = time.perf_counter() - began
        return path
