"""The short forms of `python -m tests.production replicas` and `delays`."""

import random
from pathlib import Path

import pytest

from tests.production import delays, replicas
from tests.production.plant import plant
from tests.services.databases import Server
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

#: Three of a scheduler's batches. The long form has ten, so that each of three gets one for sure.
SCHEDULES = 3_000

#: Milliseconds. How late they are is measured, not judged: this is for what is stuck.
STUCK = 5_000


@pytest.fixture(params=["mariadb", "postgresql_server"])
def server(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(request.param)
    return server


@pytest.mark.long
def test_replicas_claim_and_run_a_busy_minute_exactly_once(
    rabbitmq: RabbitMQ, server: Server, tmp_path: Path
) -> None:
    with plant(tmp_path, rabbitmq, server, replicas.JOBS) as at_work:
        busy = replicas.measure(at_work, schedules=SCHEDULES)
        troubles = at_work.troubles()

    replicas.tell(busy)
    assert (busy.executions, busy.unlike, busy.locks) == (SCHEDULES, 0, 0)
    assert troubles == []
    assert len(busy.claimed_by) > 1
    assert len(busy.run_by) == replicas.WORKERS
    assert 0 <= busy.first_claimed < 60  # never early; later than that is stuck


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
