"""Waits before retries, through the lanes of a real broker, as the tasks themselves see them."""

import random
from pathlib import Path

import pytest

from tests.production import delays
from tests.production.plant import plant
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

#: Milliseconds. How late they are is measured, not judged: this is for what is stuck.
STUCK = 5_000


def test_the_waits_of_three_retries_grow_and_are_never_early(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path
) -> None:
    with plant(tmp_path, rabbitmq, mariadb, delays.growing(tmp_path)) as at_work:
        waits = delays.measure(at_work, schedules=delays.GROWING)

    delays.tell("1, 2 and 4 s", waits)
    assert {each.promised for each in waits} == {1_000, 2_000, 4_000}
    assert 0 <= waits[0].late <= waits[-1].late < STUCK


@pytest.mark.long
def test_two_hundred_mixed_waits_at_once_are_never_early(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    jobs = delays.mixed(tmp_path, random.Random(seed))
    with plant(tmp_path, rabbitmq, mariadb, jobs, **delays.SETTINGS) as at_work:
        waits = delays.measure(at_work, schedules=delays.MIXED)

    delays.tell(f"0.1 to 20 s (seed {seed})", waits)
    assert len(waits) == 200
    assert 0 <= waits[0].late <= waits[-1].late < STUCK
