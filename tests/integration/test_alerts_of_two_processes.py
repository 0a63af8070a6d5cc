"""Two real processes with one ledger and one jobs file: what a server of this test hears of them.

They announce and tell as a worker does; the minutes between two looks are a fraction of a second.
"""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

from tests.integration.shell import Shell, clean_environment
from tests.services.finding import wait_until
from tests.services.webhooks import listening

pytestmark = pytest.mark.integration

#: Runs what a worker runs for events. With `dies` it is killed once it has judged, and tells none:
#: an event that it had taken would rest until the end of its lease.
PROCESS = """
import asyncio, os, signal, sys
from datetime import timedelta
from pathlib import Path
from cronhare.adapters.jobs.reader import read_jobs
from cronhare.application.events import alerting
from cronhare.domain.events import alerts
from cronhare.entrypoints.working import WorkingContainer
from cronhare.entrypoints.settings.settings import Settings

alerting.EVERY = timedelta(milliseconds=300)
alerts.CLEAR_AFTER = timedelta(seconds=1)
if "dies" in sys.argv:
    def judged(changes):
        if changes.raised:
            os.kill(os.getpid(), signal.SIGKILL)
    alerting.say_changes = judged

async def main():
    container = WorkingContainer(settings=Settings.read())
    settings = container.settings()
    file = read_jobs(Path("jobs.toml"), policy=settings.policy)
    container.subscribers().current = file.subscriptions
    ending = asyncio.Event()
    if "dies" not in sys.argv:
        telling = asyncio.create_task(container.outbox_relay().run(ending))
    while True:
        await asyncio.to_thread(container.announcer().round)
        await asyncio.sleep(0.1)

asyncio.run(main())
"""

JOBS = """
[tasks.books]
id = 1
command = ["true"]

[schedules.nightly]
task = "books"
schedule = "0 0 1 1 *"
ping = "http://127.0.0.1:{port}/ping"

[notify.ops]
events = ["failed", "alert", "cleared"]
webhook = "http://127.0.0.1:{port}/hook"
digest = 3

[defaults]
notify = ["ops"]
"""

FAILED = (
    "INSERT INTO FailedTask (id, execution_id, scheduler_id, schedule_name, execution_key, kind, "
    "task_type, task_id, queue, params, failed_at, failed_reason, attempts, retry_count, source, "
    "task_name, event_at) VALUES (?, ?, ?, 'nightly', ?, 'failed', 'report', 1, 'cron_scheduler', "
    "'{}', strftime('%Y-%m-%d %H:%M:%f000', 'now'), 'no', 4, 3, 'jobs.toml', 'books', "
    "strftime('%Y-%m-%d %H:%M:%f000', 'now'))"
)

#: A run of the schedule that has succeeded just now.
RAN = (
    "INSERT INTO SchedulerExecution (scheduler_id, execution_key, executed_at, container_id, "
    "due_at, state, task_type, task_id, params, started_at, finished_at) "
    "SELECT id, 'manual-1', now, 'ant', now, 'succeeded', 'report', 1, '{}', now, now "
    "FROM Scheduler, (SELECT strftime('%Y-%m-%d %H:%M:%f000', 'now') AS now) "
    "WHERE name = 'nightly'"
)


@attrs.define
class Site:
    """A ledger, its processes, and what the server heard."""

    folder: Path
    heard: list[tuple[str, bytes]] = attrs.field(factory=list)
    processes: list[subprocess.Popen[bytes]] = attrs.field(factory=list)

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        settings = {"CRON_HTTP_ALLOWED_HOSTS": "127.0.0.1", "CRON_ALERT_WARNING": "off"}
        process = subprocess.Popen(
            [sys.executable, "-c", PROCESS, *words],
            cwd=self.folder,
            env=clean_environment() | settings,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    def write(self, statement: str, *rows: tuple[object, ...]) -> None:
        path = self.folder / "cronhare.sqlite3"
        with closing(sqlite3.connect(path, timeout=30)) as ledger, ledger:
            ledger.executemany(statement, rows or [()])

    def fail(self, count: int) -> None:
        self.write(FAILED, *((n, n, 2, f"manual-{n}") for n in range(1, count + 1)))

    def documents(self, kind: str) -> list[Any]:
        found = [msgspec.json.decode(body) for path, body in self.heard if path == "/hook"]
        return [said for said in found if said["type"] == kind]

    def until(self, what: str, holds: Callable[[], object]) -> None:
        wait_until(lambda: bool(holds()), seconds=60, what=what)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    with listening(site.heard) as port:
        shell = Shell(tmp_path)
        shell.write(JOBS.replace("{port}", str(port)))
        shell("db", "upgrade")
        applied = shell("apply", "jobs.toml")
        assert applied.status == 0, applied
        yield site
        for process in site.processes:
            process.kill()
            process.wait()


def test_an_alert_is_raised_and_cleared_once_though_one_dies_in_between(site: Site) -> None:
    site.fail(6)
    died = site.begin("dies")
    assert died.wait(timeout=60) == -signal.SIGKILL
    assert site.documents("alert") == []

    site.begin()
    site.begin()
    site.until("the alert", lambda: site.documents("alert"))
    site.until("the digest", lambda: site.documents("digest"))
    site.write("UPDATE FailedTask SET resolution = 'discarded'")
    site.until("its end", lambda: site.documents("alert.cleared"))
    site.write(RAN)
    site.until("the ping", lambda: [path for path, _ in site.heard if path.startswith("/ping")])

    [raised], [over] = site.documents("alert"), site.documents("alert.cleared")
    assert raised["data"]["alert"]["message"] == "6 failed cron tasks"
    assert over["data"]["alert"]["message"] == "No more: 6 failed cron tasks"
    [digest] = site.documents("digest")
    assert (digest["data"]["event"], digest["data"]["count"]) == ("schedule.failed", 6)
    assert site.documents("schedule.failed") == []
    [ping] = [(path, body) for path, body in site.heard if path.startswith("/ping")]
    assert (ping[0].partition("rid=")[0], ping[1]) == ("/ping?", b"")
