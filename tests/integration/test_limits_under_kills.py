"""Limits of every kind while schedulers and workers are killed: see `tests.faults.limits`.

`make faults` does it for longer.
"""

import random
from pathlib import Path

import pytest

from cronhare.domain.retries.limits import OnExhausted
from tests.faults.limits.judging import tell
from tests.faults.limits.scene import measure
from tests.services.mariadb import Server
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`

SECONDS = 6


def test_no_kill_has_a_limit_exceeded_or_a_run_lost_doubled_or_stuck(
    rabbitmq: RabbitMQ, mariadb: Server, tmp_path: Path
) -> None:
    figures = measure(
        tmp_path,
        rabbitmq,
        mariadb,
        seed=random.randrange(2**32),
        seconds=SECONDS,
        kills_every=(1.5, 2.5),
        on_exhausted=OnExhausted.FAIL,
    )

    print(tell(figures))
    assert figures.broken == 0, tell(figures)
    assert figures.kills > 1
    assert figures.let_go > 0
    assert min(figures.openings, figures.stopped, figures.unbudgeted) > 0, tell(figures)
    assert {"one", "two", "five", "skip", "queue-one"} <= figures.at_once.keys()
