"""A worker with nothing to do: how soon it begins, and what it costs meanwhile."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import workers
from figures import Figure
from production import Production, opened
from samples import BUSY, size

from cronhare.application.publish import envelope
from cronhare.domain.execution import Execution
from cronhare.domain.messages import Signer
from cronhare.ports.broker import Published
from cronhare.ports.records import ExecutionFilter

SINGLE = size(200, 60)

#: Seconds between two messages, and for a worker to come to rest.
PAUSE, SETTLED = 0.02, size(10.0, 2.0)
MINUTE = size(60.0, 0.5)

EXAMPLES = Path(__file__).parents[1] / "examples" / "jobs.toml"


def figures(servers: Production) -> list[Figure]:
    """Send single messages, and watch a worker at rest."""
    url, waiting = _claimed(servers)
    ours = _until_started(
        servers, url, waiting, lambda vhost: workers.ours(url, vhost, 1, workers.noted)
    )
    theirs = _until_started(
        servers, url, waiting, lambda vhost: workers.original(vhost, workers.note_start)
    )
    memory, cpu = _at_rest(servers, url)
    return [
        Figure(
            what="publish to start, idle worker", ours=ours, unit="ms", goal=3, theirs=theirs,
            note=f"median of {SINGLE}; ours with the start in the ledger",
        ),
        Figure(what="a worker at rest, memory", ours=memory, unit="MB", goal=70, note="resident"),
        Figure(
            what="a worker at rest, CPU", ours=cpu * 100, unit="%", goal=1,
            note=f"{MINUTE:.0f} s watched",
        ),
    ]  # fmt: skip


def started(servers: Production) -> float:
    """Give the median of milliseconds from before a publish until its task begins in our worker."""
    url, waiting = _claimed(servers)
    return _until_started(
        servers, url, waiting, lambda vhost: workers.ours(url, vhost, 1, workers.noted)
    )


def _claimed(servers: Production) -> tuple[str, Sequence[Execution]]:
    """Give a ledger with executions that are claimed and marked, for us to publish."""
    url = servers.ledger(SINGLE, busy=SINGLE)
    with opened(url, "memory://") as container:
        container.dispatcher().tick(BUSY)
        return url, container.records().executions(ExecutionFilter(limit=SINGLE))


def _until_started(
    servers: Production,
    url: str,
    waiting: Sequence[Execution],
    worker: Callable[[str], workers.Work],
) -> float:
    """Give the median of milliseconds from before a publish until its task begins."""
    took = []
    with servers.broker.vhost() as vhost, opened(url, vhost) as container:
        container.broker().declare(container.queues())
        with workers.crew(worker(vhost), 1) as crew:
            [post] = crew.posts
            crew.begin()
            time.sleep(1)
            for execution in waiting:
                time.sleep(PAUSE)
                message = envelope(execution, now=BUSY, signer=Signer())
                began = time.perf_counter()
                assert container.broker().publish([message]) == [Published.CONFIRMED]
                assert post.started.poll(workers.PATIENCE)
                started: float = post.started.recv()
                took.append(started - began)
    return statistics.median(took) * 1e3


def _at_rest(servers: Production, url: str) -> tuple[float, float]:
    """Give the MB that `cronhare worker` holds, and the share of a core that it takes."""
    with servers.broker.vhost() as vhost:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("cronhare"), "worker", "--jobs", EXAMPLES],
            env={**os.environ, "CRON_DATABASE_URL": url, "CRON_BROKER_URL": vhost},
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(SETTLED)
            before = _cpu_seconds(process.pid)
            time.sleep(MINUTE)
            assert process.poll() is None, process.returncode
            return _resident(process.pid), (_cpu_seconds(process.pid) - before) / MINUTE
        finally:
            process.terminate()
            process.wait(workers.PATIENCE)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
