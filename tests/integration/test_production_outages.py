"""A real worker whose links are lost, or whose ledger is silent, at the wrong moment."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import make_url

from cronhare.domain.execution import State
from cronhare.domain.topology import MAIN_QUEUE
from tests.integration import amqp
from tests.ports import ids_of
from tests.production.plant import PATIENCE, Plant, plant
from tests.services.finding import wait_until
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


@pytest.fixture
def house(own_rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path) -> Iterator[Plant]:
    jobs = JOBS % {"effects": tmp_path / "effects", "hold": tmp_path / "hold"}
    (tmp_path / "hold").touch()
    with plant(tmp_path, own_rabbitmq, mariadb, jobs, **SETTINGS) as house:
        yield house


def wait_for(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, seconds=PATIENCE, every=0.1, what=what)


def publish_as_somebody_else(house: Plant) -> None:
    [scheduler_id] = ids_of(house.arena.schedules, ["held"]).values()
    body = f'{{"type":"worker","id":1,"scheduler_id":{scheduler_id},"params_scheduler":"{{}}"}}'
    with amqp.channel(house.broker_url) as plain:
        plain.basic_publish("", MAIN_QUEUE, body.encode())


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
