"""A worker whose broker is away at its start can be drained, and tells what there is to tell."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.integration.shell import Shell, clean_environment
from tests.integration.test_alerts_of_two_processes import FAILED
from tests.services.finding import free_port, wait_until
from tests.services.webhooks import listening

pytestmark = pytest.mark.integration

PROCESS = "from cronhare.entrypoints.cli.app import main; main()"

JOBS = """
[tasks.books]
id = 1
command = ["true"]

[schedules.nightly]
task = "books"
schedule = "0 0 1 1 *"

[notify.ops]
events = ["failed"]
webhook = "http://127.0.0.1:{port}/hook"

[defaults]
notify = ["ops"]
"""


def test_a_worker_that_waits_for_its_broker_tells_events_and_heeds_a_drain(tmp_path: Path) -> None:
    shell, heard = Shell(tmp_path), list[tuple[str, bytes]]()
    # One connection for all of it: the last one that closes removes the log beside the file.
    path = tmp_path / "cronhare.sqlite3"
    assert shell("db", "upgrade").status == 0
    with (
        listening(heard) as port,
        closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as ledger,
    ):
        shell.write(JOBS.replace("{port}", str(port)))
        ledger.execute(FAILED, (1, 1, 2, "manual-1"))

        def is_there(what: str) -> bool:
            return bool(ledger.execute(f"SELECT 1 FROM SchedulerNode WHERE {what}").fetchall())

        worker = subprocess.Popen(
            [sys.executable, "-c", PROCESS, "worker", "--jobs", "jobs.toml"],
            cwd=tmp_path,
            env=clean_environment()
            | {
                "CRON_BROKER_URL": f"amqp://guest:guest@127.0.0.1:{free_port()}/",
                "CRON_HTTP_ALLOWED_HOSTS": "127.0.0.1",
            },
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: bool(heard), seconds=60, what="the failure to be told")
            wait_until(
                partial(is_there, "consumed_at = started_at AND seen_at > started_at"),
                seconds=30,
                what="the worker to say that it has got nothing yet",
            )
            ledger.execute("UPDATE SchedulerNode SET drain_asked_at = seen_at")
            wait_until(
                partial(is_there, "consuming = 0"),
                seconds=30,
                what="the worker to say that it takes nothing",
            )
        finally:
            worker.terminate()
            assert worker.wait(timeout=30) == 0
