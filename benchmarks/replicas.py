"""What schedulers do with a busy minute and a quiet one, on a real ledger and a real broker."""

import multiprocessing
import re
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from multiprocessing.queues import Queue
from pathlib import Path
from statistics import median
from threading import Barrier
from typing import TypeVar

from cpu import cpu_of
from dependency_injector import providers
from dispatching import beside_plain
from figures import Figure, median_of, seconds_of
from original_on_servers import original_on_servers
from production import Production, opened
from rig import ShiftedClock
from samples import BUSY, LIMIT, QUIET, size
from sqlalchemy import Engine, make_url

from cronhare.adapters.sql.claims.store import SqlClaimStore
from cronhare.domain.schedules.planning import FULL_COMPARISON
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.processes.scheduler import scheduler_round
from cronhare.ports.system import ClockPort
from tests.services import databases, postgresql

T = TypeVar("T")

MANY = size(100_000, 60)
FEW = size(10_000, 60)
RUNS = size(5, 1)

#: The original algorithm is let loose on every so many-th row, and on so many claims.
EVERY = 10
CLAIMS = size(1_000, 20)

#: The idle loop is watched for so long; its cost is then told for a minute.
WATCHED_SECONDS = size(20.0, 0.5)

#: The table may grow tenfold, and the memory by so much.
FLAT = 1.2

_CLAIMED = (
    "SELECT COUNT(*), COUNT(DISTINCT scheduler_id), COUNT(CASE state WHEN 'published' THEN 1 END) "
    "FROM SchedulerExecution"
)


class ShiftedClaims(SqlClaimStore):
    """Asks the server for its time, as ever, and takes another one for it."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        super().__init__(engine, clock)
        self._shifted = clock

    def now(self) -> datetime:
        super().now()
        return self._shifted.now()


def due(servers: Production) -> list[Figure]:
    """Dispatch what is due in one minute: claimed, in the queue, and marked so."""
    few = median_of(RUNS, lambda: alone(servers, FEW))
    two = median_of(RUNS, lambda: _two_replicas(servers, FEW))
    many = median_of(3, lambda: alone(servers, MANY))
    two_many = _two_replicas(servers, MANY)
    looking, each = _original_dispatch(servers)
    sample = f"theirs from {MANY // EVERY:,} rows and {CLAIMS:,} claims"
    theirs = looking + FEW * each
    return [
        Figure(
            what="dispatch 10,000 due, of 100,000", ours=few, unit="s", goal=0.8, theirs=theirs,
            note=f"median of {RUNS}; {FEW / few:,.0f}/s; {sample}",
        ),
        Figure(
            what="the same, two replicas", ours=two, unit="s", goal=few, theirs=theirs,
            note=f"median of {RUNS}; each once",
        ),
        Figure(
            what="dispatch 100,000 due, of 100,000", ours=many, unit="s", goal=6.0,
            theirs=looking + MANY * each, note=f"median of 3; {MANY / many:,.0f}/s",
        ),
        Figure(what="the same, two replicas", ours=two_many, unit="s", goal=many,
               note="one run; each once"),
    ]  # fmt: skip


def dialects(servers: Production) -> list[Figure]:
    """Dispatch the same on PostgreSQL, beside MariaDB in the same run."""
    with postgresql.private() as database:
        other = Production(servers.broker, database)
        pairs = {
            "dispatch 10,000 due, of 100,000, on PostgreSQL": alone,
            "the same, two replicas": _two_replicas,
        }
        return [
            Figure(
                what=what,
                ours=median_of(RUNS, lambda: measure(other, FEW)),  # noqa: B023 - called at once
                unit="s",
                note=f"median of {RUNS}; on MariaDB "
                f"{median_of(RUNS, lambda: measure(servers, FEW)):.2f} s",  # noqa: B023 - likewise
            )
            for what, measure in pairs.items()
        ]


def keyed(servers: Production) -> list[Figure]:
    """Dispatch 10,000 that share concurrency keys, beside as many that have none."""
    figures = beside_plain(lambda keys: _keyed_alone(servers, keys), where="MariaDB")
    with postgresql.private() as database:
        other = Production(servers.broker, database)
        return figures + beside_plain(lambda keys: _keyed_alone(other, keys), where="PostgreSQL")


def idle(servers: Production) -> list[Figure]:
    """Rest beside 100,000 schedules of which none is due: what a minute of it costs."""
    url = servers.ledger(MANY, busy=FEW)
    with servers.broker.vhost() as vhost:
        watched, comparing = _in_its_own_process(_idle_cpu, url, vhost)
        with original_on_servers(url, vhost) as original:
            rows, loading = cpu_of(original.load)
            _, matching = cpu_of(lambda: original.matching(rows[::EVERY], QUIET))
    minute = timedelta(minutes=1)
    share = comparing * (minute / FULL_COMPARISON)
    cpu = watched * minute.total_seconds() / WATCHED_SECONDS + share
    return [
        Figure(
            what="CPU of an idle minute, 100,000 schedules", ours=cpu, unit="s", goal=0.05,
            theirs=loading + matching * EVERY,
            note=f"{WATCHED_SECONDS:.0f} s watched; {share * 1e3:.0f} ms of it for comparing all"
            f" rows; theirs from {MANY // EVERY:,} rows",
        ),
    ]  # fmt: skip


def memory(servers: Production) -> list[Figure]:
    """The most that a scheduler holds while it meets a busy minute."""
    small, large = (_in_its_own_process(_peak, *_prepared(servers, many)) for many in (FEW, MANY))
    return [
        Figure(what="peak memory, 10,000 due of 100,000", ours=small, unit="MB"),
        Figure(
            what="peak memory, 100,000 due of 100,000", ours=large, unit="MB", goal=small * FLAT,
            note=f"{large / small:.2f} times as much",
        ),
    ]  # fmt: skip


def _prepared(servers: Production, busy: int) -> tuple[str, str]:
    url = servers.ledger(MANY, busy=busy)
    vhost = servers.broker.vhost().__enter__()  # emptied with the server
    return url, vhost


def alone(servers: Production, busy: int, *, count: int = MANY) -> float:
    """Let a scheduler that is at work already meet a busy minute."""
    url = servers.ledger(count, busy=busy)
    with servers.broker.vhost() as vhost, opened(url, vhost) as container:
        dispatcher = container.dispatcher()
        dispatcher.tick(QUIET)
        container.broker().declare([MAIN_QUEUE])
        seconds = seconds_of(lambda: dispatcher.tick(BUSY))
    _each_once(url, busy)
    return seconds


def _keyed_alone(servers: Production, keys: int) -> float:
    """Let a scheduler meet a busy minute of nothing but schedules that share so many keys."""
    url = servers.ledger(FEW, busy=FEW, keys=keys)
    with servers.broker.vhost() as vhost, opened(url, vhost) as container:
        dispatcher = container.dispatcher()
        dispatcher.tick(QUIET)
        container.broker().declare([MAIN_QUEUE])
        seconds = seconds_of(lambda: dispatcher.tick(BUSY))
    [[rows, schedules, published]] = databases.run(make_url(url), _CLAIMED)
    begin = min(FEW, keys * LIMIT) if keys else FEW  # the others are held back
    assert (int(rows), int(schedules), int(published)) == (FEW, FEW, begin), (rows, published)
    return seconds


def _two_replicas(servers: Production, busy: int) -> float:
    """Let two processes meet it; from its beginning until the later one has nothing left to do."""
    url = servers.ledger(MANY, busy=busy)
    with servers.broker.vhost() as vhost:
        processes = multiprocessing.get_context("spawn")
        start = processes.Barrier(2)
        ends: Queue[tuple[float, float]] = processes.Queue()
        replicas = [
            processes.Process(target=_replica, args=(url, vhost, start, ends)) for _ in range(2)
        ]
        for replica in replicas:
            replica.start()
        times = [ends.get(timeout=300) for _ in replicas]
        for replica in replicas:
            replica.join()
    _each_once(url, busy)
    return max(end for _, end in times) - min(begin for begin, _ in times)


def _replica(url: str, vhost: str, start: Barrier, ends: "Queue[tuple[float, float]]") -> None:
    with opened(url, vhost) as container:
        dispatcher = container.dispatcher()
        dispatcher.tick(QUIET)
        container.broker().declare([MAIN_QUEUE])
        start.wait()
        began = time.monotonic()
        dispatcher.tick(BUSY)
        ends.put((began, time.monotonic()))


def _each_once(url: str, busy: int) -> None:
    [found] = databases.run(make_url(url), _CLAIMED)
    assert tuple(map(int, found)) == (busy, busy, busy), found


def _original_dispatch(servers: Production) -> tuple[float, float]:
    """Seconds in which all rows are looked at, and those that each claim and publish takes."""
    url = servers.ledger(MANY, busy=FEW)
    with servers.broker.vhost() as vhost, opened(url, vhost) as container:
        container.broker().declare([MAIN_QUEUE])
        with original_on_servers(url, vhost) as original:
            rows = original.load()
            loading = median_of(3, lambda: seconds_of(original.load))
            matching = seconds_of(lambda: original.matching(rows[::EVERY], BUSY)) * EVERY
            matched = original.matching(rows[: 3 * CLAIMS + 1], BUSY)[: 3 * CLAIMS]
            pieces = [matched[at : at + CLAIMS] for at in range(0, 3 * CLAIMS, CLAIMS)]
            claiming = [seconds_of(partial(original.dispatch, piece, BUSY)) for piece in pieces]
    return loading + matching, median(claiming) / CLAIMS


def _idle_cpu(url: str, vhost: str) -> tuple[float, float]:
    with opened(url, vhost) as container:
        container.broker().declare([MAIN_QUEUE])
        claims = ShiftedClaims(container.engine(), ShiftedClock(QUIET))
        container.claims.override(providers.Object(claims))
        loop = scheduler_round(container)
        _, comparing = cpu_of(loop.round)

        def rest() -> None:
            ends = time.monotonic() + WATCHED_SECONDS
            while (left := ends - time.monotonic()) > 0:
                time.sleep(min(loop.round(), left))

        _, watched = cpu_of(rest)
    return watched, comparing


def _peak(url: str, vhost: str) -> float:
    with opened(url, vhost) as container:
        dispatcher = container.dispatcher()
        dispatcher.tick(QUIET)
        container.broker().declare([MAIN_QUEUE])
        dispatcher.tick(BUSY)
    # Not getrusage: what it tells of a child begins with what its parent had.
    [line] = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) * 1024 / 1e6


def _in_its_own_process(measure: Callable[[str, str], T], url: str, vhost: str) -> T:
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=fresh) as pool:
        return pool.submit(measure, url, vhost).result()
