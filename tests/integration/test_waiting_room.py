"""Messages of others that nobody can take over for now: they wait, whatever befalls the broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pika
import pytest
from pika.exceptions import AMQPError
from sqlalchemy import make_url

from cronhare.domain.topology import MAIN_QUEUE, WAITING_QUEUE
from tests.integration import amqp
from tests.ports import ids_of
from tests.production.plant import PATIENCE, SCHEDULER, Plant, plant
from tests.services.finding import wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.mariadb import connect
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`

#: More than the hands of the one worker hold.
MANY = 150

#: Applied, and so numbered, in this order. A run of `between` keeps the gap after it to itself.
JOBS = """
[tasks.none]
type = "worker"
id = 1
command = ["true"]
""" + "".join(
    f'[schedules.{name}]\ntask = "none"\nschedule = "0 8 29 2 *"\n' for name in ("between", "held")
)

numbers = count()


@pytest.fixture
def house(own_rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path) -> Iterator[Plant]:
    with plant(tmp_path, own_rabbitmq, mariadb, JOBS) as house:
        house.start(*SCHEDULER)  # sends what the worker has entered, and could not publish
        house.start_worker(concurrency=4)
        house.wait_until_all_work(workers=1)
        yield house


def publish(house: Plant, schedule: str, number: int = 1) -> None:
    """Publish so many messages as another program does; the broker has confirmed each."""
    scheduler_id = id_of(house, schedule)
    body = f'{{"type":"worker","id":1,"scheduler_id":{scheduler_id},"params_scheduler":"{{}}"}}'
    with amqp.channel(house.broker_url) as plain:
        plain.confirm_delivery()
        for _ in range(number):
            named = pika.BasicProperties(delivery_mode=2, message_id=f"theirs-{next(numbers)}")
            plain.basic_publish("", MAIN_QUEUE, body.encode(), named, mandatory=True)


def id_of(house: Plant, schedule: str) -> int:
    [scheduler_id] = ids_of(house.arena.schedules, [schedule]).values()
    return scheduler_id


def ended(house: Plant, schedule: str) -> int:
    statement = "SELECT COUNT(*) FROM SchedulerExecution WHERE state = 'succeeded'"
    [(number,)] = house.query(f"{statement} AND scheduler_id = {id_of(house, schedule)}")
    return int(number)


def wait_for_ends(house: Plant, schedule: str, number: int) -> None:
    what = f"the end of {number} runs of {schedule}"
    # A worker looks at a hundred of them every 30 s.
    wait_until(lambda: ended(house, schedule) >= number, seconds=2 * PATIENCE, every=0.1, what=what)


@contextmanager
def nobody_can_insert(house: Plant) -> Iterator[None]:
    """Hold the gap into which the executions of the schedule `held` belong."""
    publish(house, "between")
    wait_for_ends(house, "between", 1)
    statement = f"SELECT * FROM SchedulerExecution WHERE scheduler_id >= {id_of(house, 'held')}"
    with connect(make_url(house.arena.settings["CRON_DATABASE_URL"])) as person:
        with person.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"{statement} FOR UPDATE")
            yield
        person.rollback()


def waits(house: Plant) -> bool:
    try:
        return amqp.depth(house.broker_url, WAITING_QUEUE) > 0
    except AMQPError:  # it has just been killed
        return False


def wait_for_the_waiting(house: Plant) -> None:
    wait_until(lambda: waits(house), seconds=PATIENCE, every=0.1, what="waiting for the gap")


def test_what_waits_for_a_gap_outlives_every_end_of_the_broker(
    house: Plant, own_rabbitmq: RabbitMQ
) -> None:
    with nobody_can_insert(house):
        publish(house, "held", MANY)
        for _ in range(3):
            wait_for_the_waiting(house)
            own_rabbitmq.kill()
            own_rabbitmq.start()
        wait_for_the_waiting(house)

    wait_for_ends(house, "held", MANY)
    wait_until(
        lambda: amqp.depth(house.broker_url, WAITING_QUEUE) == house.waiting() == 0,
        seconds=PATIENCE,
        every=0.1,
        what="the end of all copies",
    )
    assert ended(house, "held") == MANY
    house.stop()
