"""With the last worker gone a scheduler tells of alerts: once of the beginning, once of the end."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cronhare.domain.events.outbox import EXPIRES_AFTER, OutboxRow, OutboxState
from cronhare.domain.events.targets import EventKind, Subscriptions
from cronhare.entrypoints.processes.scheduler import alert_loop
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.working import WorkingContainer
from tests.integration.shell import Shell, clean_environment
from tests.services.finding import wait_until
from tests.services.rabbitmq import Server as RabbitMQ
from tests.services.webhooks import listening
from tests.trial_event import trial
from tests.unit.application.test_events import target

pytestmark = pytest.mark.integration

#: The command line, with seconds for minutes.
PROCESS = """
import sys
from datetime import timedelta
from cronhare.application.events import alerting, relay
from cronhare.domain import nodes
from cronhare.domain.events import alerts
from cronhare.entrypoints.processes import scheduler

alerting.EVERY = timedelta(milliseconds=300)
alerts.CLEAR_AFTER = relay.STAND_IN_AFTER = timedelta(seconds=1)
nodes.PRESUMED_DEAD_AFTER = timedelta(seconds=7)
relay.STAND_IN_EVERY = scheduler.LOOK_FOR_ALERTS_EVERY = 0.2

from cronhare.entrypoints.cli.app import main
main()
"""

JOBS = """
[tasks.books]
command = ["true"]

[schedules.nightly]
task = "books"
schedule = "0 0 1 1 *"

[notify.ops]
events = ["alert", "cleared"]
alerts = ["node"]
webhook = "http://127.0.0.1:{port}/hook"

[notify.own]
events = ["alert"]
alerts = ["node"]
command = ["touch", "ran"]
"""


def test_a_scheduler_tells_once_of_the_last_worker_that_was_killed_and_once_of_the_end(
    rabbitmq: RabbitMQ, tmp_path: Path
) -> None:
    shell = Shell(tmp_path)
    assert shell("db", "upgrade").status == 0
    path = tmp_path / "cronhare.sqlite3"
    processes, heard = list[subprocess.Popen[bytes]](), list[tuple[str, bytes]]()
    # One connection for all of it: the last one that closes removes the log beside the file.
    ledger = sqlite3.connect(path, timeout=30, isolation_level=None)
    with closing(ledger), rabbitmq.vhost() as broker_url, listening(heard) as port:
        shell.write(JOBS.replace("{port}", str(port)))
        settings = {"CRON_BROKER_URL": broker_url, "CRON_HTTP_ALLOWED_HOSTS": "127.0.0.1"}

        def begin(*words: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-c", PROCESS, *words]
            environment = clean_environment() | settings
            processes.append(subprocess.Popen(command, cwd=tmp_path, env=environment))
            return processes[-1]

        def asked(question: str) -> list[Any]:
            return ledger.execute(question).fetchall()

        def is_there(role: str) -> bool:
            return bool(asked(f"SELECT 1 FROM SchedulerNode WHERE role = '{role}'"))

        try:
            begin("scheduler", "--jobs", "jobs.toml")
            worker = begin("worker", "--jobs", "jobs.toml")
            wait_until(lambda: is_there("scheduler"), seconds=60, what="the scheduler")
            wait_until(lambda: is_there("worker"), seconds=60, what="the worker")
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            wait_until(lambda: bool(heard), seconds=60, what="the alert")
            asked("DELETE FROM SchedulerNode WHERE role = 'worker'")
            wait_until(lambda: len(heard) > 1, seconds=90, what="its end")
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            ends = [process.wait(timeout=60) for process in processes]

        rows = asked("SELECT target, event, state FROM EventDelivery ORDER BY id")

    assert ends == [0, -signal.SIGKILL]
    alert, over = [msgspec.json.decode(body) for _, body in heard]
    assert [alert["type"], over["type"]] == ["alert", "alert.cleared"]
    assert f"-{worker.pid}-" in alert["data"]["subject"]
    assert ("own", "alert", "waiting") in rows  # its program is on the workers' hosts
    assert not (tmp_path / "ran").exists()


def test_who_stands_in_gives_up_what_no_worker_was_there_to_tell(on_sqlite: Settings) -> None:
    container = WorkingContainer(settings=on_sqlite)
    own = target("own", EventKind.ALERT)
    container.subscribers().current = Subscriptions(source="shop", targets={"own": own})
    long_ago = container.claims().now() - EXPIRES_AFTER - timedelta(minutes=1)
    event = trial("own", now=long_ago, id_="0")
    container.events().add([OutboxRow.of(event, "own", source="shop", now=long_ago)], now=long_ago)

    def is_given_up() -> bool:
        [row] = container.events().rows(limit=9)
        return row.state == OutboxState.EXPIRED

    loop = alert_loop(container, stands_in=True)
    loop.start()
    wait_until(is_given_up, seconds=30, what="the end of what is old")
    asyncio.run(loop.stop())
