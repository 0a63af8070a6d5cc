"""A run that is asked for in production: its command sends it, where it can."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.integration.shell import Said, Shell
from tests.production.plant import PATIENCE, SCHEDULER, Plant, plant
from tests.services.finding import wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

NOBODY = "amqp://guest:guest@127.0.0.1:1/"

JOBS = """
[tasks.true]
id = 1
command = ["/bin/true"]

[schedules.asked]
task = "true"
schedule = "@yearly"
"""

KEY = "k" * 32


def test_it_begins_at_once_and_where_the_broker_is_away_soon(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path
) -> None:
    with plant(tmp_path, rabbitmq, mariadb, JOBS, CRON_MESSAGE_KEY=KEY) as at_work:
        at_work.start(*SCHEDULER)
        at_work.start_worker()
        at_work.wait_until_all_work(workers=1)
        reported = ("nodes", "list", "--json")
        wait_until(lambda: ask(at_work, *reported).json(), seconds=PATIENCE, what="a report")

        runs = [ask(at_work, "run", "asked", "--wait", "--json") for _ in range(3)]
        away = ask(at_work, "run", "asked", "--wait", "--json", CRON_BROKER_URL=NOBODY)

        assert [run.status for run in (*runs, away)] == [0] * 4
        lateness = [late(run.json()) for run in runs]
        assert max(lateness) < 2, lateness
        assert all("A scheduler sends" not in run.err for run in runs)
        assert "A scheduler sends 1 execution" in away.err
        assert late(away.json()) < 10
        at_work.stop()
        assert at_work.troubles() == []


def ask(at_work: Plant, *command: str, **settings: str) -> Said:
    """Call a command with the plant's settings."""
    return Shell(at_work.arena.folder)(*command, **{**at_work.arena.settings, **settings})


def late(execution: dict[str, Any]) -> float:
    """Say how long after its claim a run began, in seconds."""
    began, claimed = (
        datetime.fromisoformat(execution[name]) for name in ("started_at", "executed_at")
    )
    return (began - claimed).total_seconds()
