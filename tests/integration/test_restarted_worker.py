"""Workers under one host name and one PID, as containers have them: one after another, or at once.

Each is PID 1 of a PID namespace of its own. No scheduler runs, so that only they settle anything.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import pytest
from pika.exceptions import AMQPError

from cronhare.domain.execution import State
from cronhare.domain.nodes import container_id
from cronhare.domain.retries.outcome import CRASH_LIMIT, CRASH_WINDOW
from cronhare.domain.topology import MAIN_QUEUE
from tests.integration import amqp
from tests.production.plant import PATIENCE, Plant, Process, plant
from tests.services.finding import missing, wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`

SETTINGS = {"CRON_LEASE_SECONDS": "15", "CRON_RETRY_DELAY_MS": "100", "CRON_MAX_RETRIES": "9"}

#: Twenty were tried; each takes some seconds.
RESTARTS = int(os.environ.get("CRONHARE_TEST_RESTARTS", "3"))

JOBS = """
[tasks.poison]
type = "worker"
id = 1
env = { EFFECTS = "%(effects)s" }
command = ["/bin/sh", "-c", 'echo "$CRON_EXECUTION_ID $CRON_ATTEMPT" >> "$EFFECTS"; exec sleep 600']

[schedules.poison]
task = "poison"
schedule = "0 8 29 2 *"
"""

UNSHARE = ("unshare", "--pid", "--fork", "--kill-child")


@pytest.fixture
def house(rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path) -> Iterator[Plant]:
    if subprocess.run([*UNSHARE, "true"], check=False, capture_output=True).returncode:
        missing("PID namespace of its own", "run as root, with util-linux installed")
    with plant(
        tmp_path, rabbitmq, mariadb, JOBS % {"effects": tmp_path / "effects"}, **SETTINGS
    ) as house:
        yield house


def start(house: Plant, **settings: str) -> Process:
    program = str(Path(sys.executable).with_name("cronhare"))
    command = (*UNSHARE, program, "worker", "--jobs", "jobs.toml", "--concurrency", "4")
    house.processes.append(house.arena.start_program(*command, **settings))
    return house.processes[-1]


def kill(process: Process) -> None:
    process.kill()  # its child follows, and with a PID 1 all of its namespace
    process.wait()


@contextmanager
def namespace_of(process: Process) -> Iterator[None]:
    """Keep a process's PID namespace from being forgotten, so that no later one has its number."""
    [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    descriptor = os.open(f"/proc/{child}/ns/pid", os.O_RDONLY)
    try:
        yield
    finally:
        os.close(descriptor)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, seconds=PATIENCE, every=0.1, what=what)


def consumes(house: Plant) -> bool:
    with suppress(AMQPError):  # nobody has declared it yet
        return amqp.consumers(house.broker_url, MAIN_QUEUE) > 0
    return False


def has_settled(house: Plant, times: int) -> bool:
    return len(house.lines("settle")) == times


def begin_one(house: Plant, starts: int) -> None:
    """Wait until so many attempts have begun in all; ask for a new run if none is under way."""
    if not house.arena.unfinished():
        house.publish_run("poison")
    wait_for(lambda: house.arena.starts().total() >= starts, f"start {starts}")


def test_a_worker_that_is_killed_and_comes_back_under_its_name_starts_no_attempt_twice(
    house: Plant,
) -> None:
    worker = start(house)
    wait_for(lambda: consumes(house), "consuming")
    for restart in range(1, RESTARTS + 1):
        begin_one(house, restart)
        with namespace_of(worker) if restart % 2 else nullcontext():
            kill(worker)
            worker = start(house)
            wait_for(partial(has_settled, house, restart), "settling")
    begin_one(house, RESTARTS + 1)
    kill(worker)

    starts = house.arena.starts()
    assert set(starts.values()) == {1}
    assert len(starts) == RESTARTS + 1
    ended = [row for row in house.arena.executions() if row.state is State.QUARANTINED]
    assert len(ended) == RESTARTS // CRASH_LIMIT
    for execution in house.arena.executions():
        attempts = house.arena.records.attempts(execution.id)
        lost = [one for one in attempts if one.ending == "lost"]
        assert len({one.node for one in attempts}) == len(attempts)
        assert {container_id(one.node) for one in attempts} == {container_id(attempts[0].node)}
        assert len(lost) == len(execution.crashed_at) == execution.deaths + (execution in ended)
    for execution in ended:
        first, *_, third = execution.crashed_at
        assert len(execution.crashed_at) == CRASH_LIMIT
        assert third - first < CRASH_WINDOW
    assert len(house.lines("settle")) == RESTARTS
