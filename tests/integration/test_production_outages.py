"""A worker whose links are lost, whose ledger is silent, or who is killed, at the wrong moment."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import pytest
from pika.exceptions import AMQPError
from sqlalchemy import make_url

from cronhare.domain.execution import State
from cronhare.domain.nodes import container_id
from cronhare.domain.retries.outcome import CRASH_LIMIT, CRASH_WINDOW
from cronhare.domain.topology import MAIN_QUEUE
from tests.integration import amqp
from tests.ports import ids_of
from tests.production.plant import PATIENCE, Plant, Process, plant
from tests.services.finding import missing, wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.proxy import proxy_in_thread
from tests.services.rabbitmq import Server as RabbitMQ
from tests.services.rabbitmq import cut_all

pytestmark = pytest.mark.integration

LEASE = 6.0
MANY = 4
SETTINGS = {"CRON_LEASE_SECONDS": f"{LEASE:.0f}"}

JOBS = """
[tasks.held]
type = "worker"
id = 1
env = { EFFECTS = "%(effects)s", HOLD = "%(hold)s" }
command = ["/bin/sh", "-c", '''
echo "$CRON_EXECUTION_ID $CRON_ATTEMPT" >> "$EFFECTS"
while [ -e "$HOLD" ]; do sleep 0.1; done
''']

[schedules.held]
task = "held"
schedule = "0 8 29 2 *"
"""


#: Of workers that are killed and come back under one host name and one PID, as containers do: each
#: is PID 1 of a PID namespace of its own. No scheduler runs, so that only they settle anything.
RESTARTING = {"CRON_LEASE_SECONDS": "15", "CRON_RETRY_DELAY_MS": "100", "CRON_MAX_RETRIES": "9"}
UNSHARE = ("unshare", "--pid", "--fork", "--kill-child")

#: Each takes some seconds.
RESTARTS = 3


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    (tmp_path / "hold").touch()
    return JOBS % {"effects": tmp_path / "effects", "hold": tmp_path / "hold"}


@pytest.fixture
def house(own_rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path, jobs: str) -> Iterator[Plant]:
    with plant(tmp_path, own_rabbitmq, mariadb, jobs, **SETTINGS) as house:
        yield house


@pytest.fixture
def restarting(rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path, jobs: str) -> Iterator[Plant]:
    if subprocess.run([*UNSHARE, "true"], check=False, capture_output=True).returncode:
        missing("PID namespace of its own", "run as root, with util-linux installed")
    with plant(tmp_path, rabbitmq, mariadb, jobs, **RESTARTING) as restarting:
        yield restarting


def wait_for(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, seconds=PATIENCE, every=0.1, what=what)


def publish_as_somebody_else(house: Plant) -> None:
    [scheduler_id] = ids_of(house.arena.schedules, ["held"]).values()
    body = f'{{"type":"worker","id":1,"scheduler_id":{scheduler_id},"params_scheduler":"{{}}"}}'
    house.publish(body.encode())


def has_started(house: Plant, attempts: int) -> bool:
    return house.arena.starts().total() >= attempts


def let_all_end(house: Plant, *, many: int) -> None:
    (house.arena.folder / "hold").unlink()
    wait_for(lambda: len(house.arena.executions()) == many and not house.arena.unfinished(), "ends")


def test_a_message_of_somebody_else_runs_once_though_connections_are_lost_meanwhile(
    house: Plant, own_rabbitmq: RabbitMQ
) -> None:
    house.start_worker(concurrency=MANY)
    house.wait_until_all_work(workers=1)
    publish_as_somebody_else(house)

    for lost in range(1, 3):
        wait_for(partial(has_started, house, lost), f"start {lost}")
        cut_all(own_rabbitmq)
        house.wait_until_all_work(workers=1)
        publish_as_somebody_else(house)  # comes after whatever came back
        wait_for(partial(has_started, house, lost + 1), f"start {lost + 1}")
    (house.arena.folder / "hold").unlink()
    publish_as_somebody_else(house)
    wait_for(lambda: has_started(house, 4) and not house.waiting(), "the last start")
    wait_for(lambda: not house.arena.unfinished(), "the end of all")

    assert set(house.arena.starts().values()) == {1}
    assert [row.state for row in house.arena.executions()] == [State.SUCCEEDED] * 4


def test_what_waits_at_the_fence_while_the_ledger_is_silent_is_not_killed_when_it_starts(
    house: Plant,
) -> None:
    url = make_url(house.arena.settings["CRON_DATABASE_URL"])
    assert url.port is not None
    with proxy_in_thread(url.port) as (port, link):
        behind = url.set(port=port).render_as_string(hide_password=False)
        house.start_worker(concurrency=MANY, CRON_DATABASE_URL=behind)
        house.wait_until_all_work(workers=1)
        link.freeze()
        for _ in range(MANY):
            house.publish_run("held")
        wait_for(lambda: house.waiting() == 0, "deliveries")
        time.sleep(2 * LEASE)  # a lease that was asked for at first is over, and over again

        link.thaw()
        wait_for(partial(has_started, house, MANY), "starts")
        time.sleep(LEASE)
        let_all_end(house, many=MANY)

        assert house.arena.starts().total() == MANY
        assert [(row.state, row.attempt) for row in house.arena.executions()] == [
            (State.SUCCEEDED, 1)
        ] * MANY
        house.stop()


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


def consumes(house: Plant) -> bool:
    with suppress(AMQPError):  # nobody has declared it yet
        return amqp.consumers(house.broker_url, MAIN_QUEUE) > 0
    return False


def has_settled(house: Plant, times: int) -> bool:
    return len(house.lines("settle")) == times


def begin_one(house: Plant, starts: int) -> None:
    """Wait until so many attempts have begun in all; ask for a new run if none is under way."""
    if not house.arena.unfinished():
        house.publish_run("held")
    wait_for(lambda: house.arena.starts().total() >= starts, f"start {starts}")


@pytest.mark.long
def test_a_worker_that_is_killed_and_comes_back_under_its_name_starts_no_attempt_twice(
    restarting: Plant,
) -> None:
    house = restarting
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
