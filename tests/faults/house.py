"""Schedulers and workers as processes of their own, on a broker and a database that may be hurt."""

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

import attrs

from cronhare.domain.execution import State
from cronhare.ports.records import ExecutionFilter
from tests.faults.arena import Arena, standing
from tests.faults.jobs import GROUPS
from tests.faults.judging import Figures, judge
from tests.services import databases, rabbitmq
from tests.services.finding import wait_until

Process = subprocess.Popen[bytes]

WORKER = ("worker", "--jobs", "jobs.toml", "--concurrency", "16")

#: Shorter than anybody would have them, so that a fault and its end take seconds.
SETTINGS = {
    "CRON_LEASE_SECONDS": "5",
    "CRON_REFRESH_SECONDS": "1",
    "CRON_SHUTDOWN_GRACE_SECONDS": "5",
}

#: How many runs are asked for before a fault; each third of them fails at first, and is retried.
LOAD = 20

#: Seconds in which everything must have come to its end, or the next attempt must have begun.
PATIENCE = 90.0


@attrs.define
class Servers:
    database: databases.Server
    rabbitmq: rabbitmq.Server


@attrs.define(kw_only=True)
class House:
    """Two schedulers and two workers, some work under way, and a record of recoveries."""

    arena: Arena
    servers: Servers
    die: random.Random
    many_schedulers: int = 2
    many_workers: int = 2
    schedulers: list[Process] = attrs.field(factory=list)
    workers: list[Process] = attrs.field(factory=list)
    recoveries: list[float] = attrs.field(factory=list)

    def fill_up(self) -> None:
        self._forget_the_dead()
        while len(self.schedulers) < self.many_schedulers:
            self.start_scheduler()
        while len(self.workers) < self.many_workers:
            self.start_worker()

    def _forget_the_dead(self) -> None:
        by_us = {0, -signal.SIGKILL}
        others = [status for status in self._statuses() if status not in by_us]
        assert not others, f"processes ended by themselves: {others}"
        self.schedulers = [one for one in self.schedulers if one.poll() is None]
        self.workers = [one for one in self.workers if one.poll() is None]

    @property
    def everybody(self) -> list[Process]:
        """All that were started and not found dead."""
        return self.schedulers + self.workers

    def check_that_all_live(self) -> None:
        """Tell that nobody ended by himself.

        Raises:
            AssertionError: somebody did.
        """
        ended = self._statuses()
        assert not ended, f"processes ended by themselves: {ended}"

    def _statuses(self) -> list[int]:
        polled = (one.poll() for one in self.everybody)
        return [status for status in polled if status is not None]

    def start_scheduler(self, **settings: str) -> Process:
        """Start a scheduler that soon misses what is late; *settings* are its alone."""
        self.schedulers.append(self.arena.start_module("tests.faults.scheduler", **settings))
        return self.schedulers[-1]

    def start_worker(self, **settings: str) -> Process:
        self.workers.append(self.arena.start(*WORKER, **settings))
        return self.workers[-1]

    def load(self) -> None:
        """Ask for runs, and wait until some of them have failed and wait for their retry."""
        self.arena.ask_for_runs(LOAD)
        wait_until(self._is_retrying, seconds=PATIENCE, what="a first retry")

    def _is_retrying(self) -> bool:
        retrying = ExecutionFilter(states={State.RETRYING}, limit=1)
        return bool(self.arena.records.executions(retrying))

    def recover(self) -> None:
        """Call this when a fault is over: measures how long a run asked for now takes to begin.

        It needs everybody: the ledger, a scheduler, the broker and a worker.
        """
        before, began = self.arena.effects.stat().st_size, time.monotonic()
        asked = self.arena.ask_for_runs(of=GROUPS)  # which do not fail: that is soon over

        def has_begun() -> bool:
            return any(id_ in asked for id_, _ in self.arena.starts(after=before))

        wait_until(has_begun, seconds=PATIENCE, what="recovery")
        self.recoveries.append(time.monotonic() - began)

    def settle(self) -> datetime:
        """Wait until everything has ended, so long and no longer; gives the ledger's time."""
        give_up_at = time.monotonic() + PATIENCE
        while (settled_at := self.arena.settled_at()) is None:
            if time.monotonic() > give_up_at:
                break  # the judge will say what is stuck
            time.sleep(0.1)
        return settled_at or self.arena.claims.now()

    def judge(self, *, cycles: int, settled_at: datetime) -> Figures:
        """Hold everything before *settled_at* against the promises."""
        recoveries = self.recoveries
        return judge(self.arena, cycles=cycles, recoveries=recoveries, settled_at=settled_at)

    def stop(self) -> None:
        """Stop everybody politely; whoever does not end well breaks a promise."""
        self._forget_the_dead()
        stop_politely(self.everybody)
        self.schedulers.clear()
        self.workers.clear()


def stop_politely(processes: list[Process]) -> None:
    """Stop processes as an operator would, once they have begun.

    Raises:
        AssertionError: one of them ended with another status than 0.
    """
    for process in processes:
        wait_until(partial(has_begun, process), seconds=PATIENCE, what="the start of a process")
        process.send_signal(signal.SIGTERM)
    statuses = [process.wait(timeout=60) for process in processes]
    assert not any(statuses), f"SIGTERM ended them with {statuses}"


def has_begun(process: Process) -> bool:
    """Tell whether a process listens for SIGTERM, which ended it before; or is no more."""
    if process.poll() is not None:
        return True
    status = Path(f"/proc/{process.pid}/status").read_text()
    [caught] = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def kill_nine(process: Process) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


@contextmanager
def house(folder: Path, servers: Servers, seed: int) -> Iterator[House]:
    """Build a house with a vhost and a database of its own; its schedules are due each minute."""
    with standing(folder, servers.rabbitmq, servers.database, seed=seed, **SETTINGS) as arena:
        arena.apply()
        yield House(arena=arena, servers=servers, die=random.Random(seed))


Scenario = Callable[[House], None]
