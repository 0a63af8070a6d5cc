"""A run that is asked for in production: its command sends it, where it can."""

from pathlib import Path

import pytest

from tests.faults.house import stop_politely
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


def test_its_command_sends_it_without_a_scheduler_who_does_where_the_broker_is_away(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path
) -> None:
    with plant(tmp_path, rabbitmq, mariadb, JOBS, CRON_MESSAGE_KEY=KEY) as at_work:
        scheduler = at_work.start(*SCHEDULER)
        at_work.start_worker()
        at_work.wait_until_all_work(workers=1)
        reported = ("nodes", "list", "--json")
        wait_until(lambda: ask(at_work, *reported).json(), seconds=PATIENCE, what="a report")

        at_work.processes.remove(scheduler)
        stop_politely([scheduler])
        runs = [ask(at_work, "run", "asked", "--wait", "--json") for _ in range(3)]
        at_work.start(*SCHEDULER)
        away = ask(at_work, "run", "asked", "--wait", "--json", CRON_BROKER_URL=NOBODY)

        assert [run.status for run in (*runs, away)] == [0] * 4
        assert all("A scheduler sends" not in run.err for run in runs)
        assert "A scheduler sends 1 execution" in away.err
        assert away.json()["state"] == "succeeded"
        at_work.stop()
        assert at_work.troubles() == []


def ask(at_work: Plant, *command: str, **settings: str) -> Said:
    """Call a command with the plant's settings."""
    return Shell(at_work.arena.folder)(*command, **{**at_work.arena.settings, **settings})
