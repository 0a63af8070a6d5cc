"""A scheduler that the broker is away for, beside one that it is there for."""

from collections.abc import Collection
from pathlib import Path

import pytest

from cronhare.domain.execution import State
from tests.production.plant import PATIENCE, SCHEDULER, Plant, plant
from tests.services.finding import wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

NOBODY = "amqp://guest:guest@127.0.0.1:1/"
MANY = 40

JOBS = """
[tasks.true]
id = 1
command = ["/bin/true"]

[schedules.s1]
task = "true"
schedule = "@yearly"
"""


def test_a_scheduler_that_is_cut_off_keeps_nothing_from_another(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path
) -> None:
    with plant(tmp_path, rabbitmq, mariadb, JOBS, CRON_REFRESH_SECONDS="1") as at_work:
        at_work.start(*SCHEDULER, CRON_BROKER_URL=NOBODY)
        alone = at_work.arena.make_due(MANY, like="s1")
        wait_until_all_are(State.CLAIMED, alone, at_work)

        at_work.start(*SCHEDULER)
        wait_until_all_are(State.PUBLISHED, alone, at_work)
        together = at_work.arena.make_due(MANY, like="s1")
        wait_until_all_are(State.PUBLISHED, together, at_work)

        assert at_work.waiting() >= 2 * MANY
        at_work.stop()


def wait_until_all_are(state: State, names: Collection[str], at_work: Plant) -> None:
    """Wait until the only run of each of these schedules has come to *state*."""

    def all_are() -> bool:
        rows = [row for row in at_work.arena.executions() if row.schedule_name in names]
        return len(rows) == len(names) and all(row.state is state for row in rows)

    wait_until(all_are, seconds=PATIENCE, every=0.2, what=f"all to be {state.value}")
