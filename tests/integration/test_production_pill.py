"""A message that ends each worker that reads it, on a real broker and a real database."""

import signal
from pathlib import Path

import pytest

from cronhare.domain.execution import State
from cronhare.domain.topology import MAIN_QUEUE, QUARANTINE_QUEUE
from tests.integration import amqp
from tests.integration.test_production_original import (
    JOBS,
    SCHEDULES,
    SETTINGS,
    body,
    publish,
    wait_for,
)
from tests.production.plant import PATIENCE, plant
from tests.services.mariadb import Server as Mariadb
from tests.services.mariadb import run
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`


def test_it_ends_four_workers_and_no_fifth_and_its_neighbour_runs(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path
) -> None:
    jobs = JOBS % {"effects": tmp_path / "effects", "given": tmp_path / "given"}
    mortal = ("tests.integration.mortal_worker", "worker", "--jobs", "jobs.toml")
    with plant(tmp_path, rabbitmq, mariadb, jobs, **SETTINGS) as shared:
        run(shared.arena.database, SCHEDULES)
        first = shared.start_worker()
        shared.wait_until_all_work(workers=1)
        shared.stop()
        shared.processes.remove(first)
        publish(shared, body(25, '{"poison": true}'))
        publish(shared, body(25))

        for _ in range(4):
            died = shared.arena.start_module(*mortal, CRON_CONCURRENCY="8")
            assert died.wait(PATIENCE) == -signal.SIGKILL
        shared.processes.append(shared.arena.start_module(*mortal, CRON_CONCURRENCY="8"))
        wait_for(shared, State.SUCCEEDED)
        shared.stop()

        [said] = shared.lines("message.parked")
        assert "it ended its worker 3 times within 300 s" in said["message"]
        assert amqp.depth(shared.broker_url, QUARANTINE_QUEUE) == 1
        assert amqp.depth(shared.broker_url, MAIN_QUEUE) == 0
        assert len(shared.arena.executions()) == 1
