"""The short form of `python -m tests.production replicas`."""

from pathlib import Path

import pytest

from tests.production import replicas
from tests.production.plant import plant
from tests.services.databases import Server
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

#: Three of a scheduler's batches. The long form has ten, so that each of three gets one for sure.
SCHEDULES = 3_000


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
