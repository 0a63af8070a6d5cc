"""Two SIGTERMs, or one and its time, end any process: whatever its tasks and servers do."""

import json
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from tests.faults.arena import Arena
from tests.integration.invocations import alive
from tests.production.plant import Plant, plant
from tests.services import mariadb as mariadb_service
from tests.services import rabbitmq as rabbitmq_service
from tests.services.finding import missing, wait_until
from tests.services.lives import Private

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`

Process = subprocess.Popen[bytes]

#: What is promised, in seconds. The processes are quicker: a busy machine is no fault of theirs.
PROMISED = 60.0

#: It stops the warden, and hears no TERM.
JOBS = """
[tasks.stubborn]
id = 1
command = ["/bin/sh", "stubborn"]

[schedules.stubborn]
task = "stubborn"
schedule = "0 0 1 1 *"
"""
STUBBORN = """
trap '' TERM
kill -STOP $PPID
echo $$ $PPID >ready.new
mv ready.new ready
while :; do sleep 0.1; done
"""

#: The last word of a process that is ended by force.
FORCED = re.compile(
    r"Ended without waiting any longer for \S.*; still there: \S.*\. What was not written down"
)

SETTINGS = {"CRON_SHUTDOWN_GRACE_SECONDS": "1"}


@pytest.fixture
def house(
    rabbitmq: rabbitmq_service.Server, mariadb: mariadb_service.Server, tmp_path: Path
) -> Iterator[Plant]:
    (tmp_path / "stubborn").write_text(STUBBORN)
    with plant(tmp_path, rabbitmq, mariadb, JOBS, **SETTINGS) as built:
        yield built


@pytest.fixture
def servers(
    rabbitmq: rabbitmq_service.Server, mariadb: mariadb_service.Server
) -> dict[str, Private]:
    found: dict[str, Private] = {}
    for name, server in (("broker", rabbitmq), ("database", mariadb)):
        if not isinstance(server, Private):
            missing(f"a private {name}", "stop using one of the environment")
        found[name] = server
    return found


def run_the_stubborn(arena: Arena) -> list[int]:
    arena.ask_for_runs(of=["stubborn"])
    ready = arena.folder / "ready"
    wait_until(ready.exists, seconds=60, what="the task")
    return [int(each) for each in ready.read_text().split()]


def end(processes: Sequence[Process], *, signals: int, frozen: Iterable[Private] = ()) -> float:
    """Ask for the end of processes, and tell how many seconds the last of them took."""
    with ExitStack() as stack:
        for server in frozen:
            stack.enter_context(server.frozen())
        began = time.monotonic()
        for _ in range(signals):
            for process in processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
        for process in processes:
            process.wait(max(2 * PROMISED - (time.monotonic() - began), 1))
    return time.monotonic() - began


def ended_in_order(arena: Arena, processes: Sequence[Process]) -> bool:
    """Whether each ended by itself, or by force with status 3 and a word on what was left."""
    lines = [json.loads(line) for line in arena.said().splitlines() if line.startswith("{")]
    last_words = [line["message"] for line in lines if line.get("action") == "shutdown.forced"]
    statuses = [process.returncode for process in processes]
    assert set(statuses) <= {0, 3}, arena.said()[-3000:]
    assert len(last_words) == statuses.count(3), arena.said()[-3000:]
    return all(map(FORCED.match, last_words))


@pytest.mark.parametrize(
    ("frozen", "signals"), [((), 2), (("database",), 2), (("database", "broker"), 1)]
)
def test_scheduler_and_worker_end(
    house: Plant, servers: dict[str, Private], frozen: Sequence[str], signals: int
) -> None:
    house.start("scheduler")
    house.start_worker()
    house.wait_until_all_work(workers=1)
    task, warden = run_the_stubborn(house.arena)

    took = end(house.processes, signals=signals, frozen=[servers[name] for name in frozen])

    assert took < PROMISED
    assert ended_in_order(house.arena, house.processes)
    assert not alive(task)
    assert not alive(warden)


def test_a_worker_ends_that_never_found_its_servers(
    house: Plant, servers: dict[str, Private]
) -> None:
    with servers["broker"].frozen():
        worker = house.start_worker()
        asks = partial(house.lines, "broker.unavailable")
        wait_until(lambda: bool(asks()), seconds=PROMISED, what="the first complaint")

        took = end([worker], signals=1)

    assert took < PROMISED
    assert ended_in_order(house.arena, [worker])


def test_a_task_that_cannot_be_written_down_ends_with_up(tmp_path: Path) -> None:
    """Another program holds SQLite's lock, and does not let go."""
    arena = Arena(tmp_path, 0, **SETTINGS)
    (tmp_path / "stubborn").write_text(STUBBORN)
    (tmp_path / "jobs.toml").write_text(JOBS)
    arena.apply()
    with arena.start() as up, closing(sqlite3.connect(tmp_path / "ledger.sqlite3")) as other:
        task, warden = run_the_stubborn(arena)
        other.execute("BEGIN EXCLUSIVE")

        took = end([up], signals=2)

    assert took < PROMISED
    assert ended_in_order(arena, [up])
    assert not alive(task)
    assert not alive(warden)
