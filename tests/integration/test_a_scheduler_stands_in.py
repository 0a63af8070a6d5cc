"""Who tells of events where a server or a colleague is away: each once, of beginning and end."""

import asyncio
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

from cronhare.domain.events.outbox import EXPIRES_AFTER, OutboxRow, OutboxState
from cronhare.domain.events.targets import EventKind, Subscriptions
from cronhare.entrypoints.processes.scheduler import alert_loop
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.working import WorkingContainer
from tests.faults.arena import Arena
from tests.faults.house import PATIENCE, Process, kill_nine, stop_politely
from tests.integration.test_alerts_of_two_processes import FAILED
from tests.services.finding import free_port, wait_until
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


@attrs.frozen
class Scene:
    """Processes on one ledger in a file, which is read beside them; and what a server heard."""

    arena: Arena
    ledger: sqlite3.Connection
    heard: list[tuple[str, bytes]]

    def asked(self, question: str) -> list[Any]:
        return self.ledger.execute(question).fetchall()

    def wait_for_node(self, condition: str) -> None:
        question = f"SELECT 1 FROM SchedulerNode WHERE {condition}"
        wait_until(lambda: bool(self.asked(question)), seconds=PATIENCE, what=condition)

    def wait_until_told(self, times: int = 1) -> None:
        wait_until(lambda: len(self.heard) >= times, seconds=PATIENCE, what=f"{times} events")


@contextmanager
def scene(folder: Path, jobs: str, broker_url: str) -> Iterator[Scene]:
    settings = {"CRON_BROKER_URL": broker_url, "CRON_HTTP_ALLOWED_HOSTS": "127.0.0.1"}
    heard = list[tuple[str, bytes]]()
    with listening(heard) as port, closing(Arena(folder, 0, **settings)) as arena:
        (folder / "jobs.toml").write_text(jobs.replace("{port}", str(port)))
        path = folder / "ledger.sqlite3"
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as ledger:
            yield Scene(arena, ledger, heard)


def test_a_scheduler_tells_once_of_the_last_worker_that_was_killed_and_once_of_the_end(
    vhost: str, tmp_path: Path
) -> None:
    with scene(tmp_path, JOBS, vhost) as seen:

        def begin(role: str) -> Process:
            command = sys.executable, "-c", PROCESS, role, "--jobs", "jobs.toml"
            return seen.arena.start_program(*command)

        scheduler, worker = begin("scheduler"), begin("worker")
        for role in ("scheduler", "worker"):
            seen.wait_for_node(f"role = '{role}'")
        kill_nine(worker)
        seen.wait_until_told()
        seen.asked("DELETE FROM SchedulerNode WHERE role = 'worker'")
        seen.wait_until_told(2)
        stop_politely([scheduler])
        rows = seen.asked("SELECT target, event, state FROM EventDelivery ORDER BY id")

    alert, over = [msgspec.json.decode(body) for _, body in seen.heard]
    assert [alert["type"], over["type"]] == ["alert", "alert.cleared"]
    assert f"-{worker.pid}-" in alert["data"]["subject"]
    assert ("own", "alert", "waiting") in rows  # its program is on the workers' hosts
    assert not (tmp_path / "ran").exists()


FAILURES = """
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
    nobody = f"amqp://guest:guest@127.0.0.1:{free_port()}/"
    with scene(tmp_path, FAILURES, nobody) as seen:
        seen.ledger.execute(FAILED, (1, 1, 2, "manual-1"))
        worker = seen.arena.start("worker", "--jobs", "jobs.toml")
        seen.wait_until_told()
        seen.wait_for_node("consumed_at = started_at AND seen_at > started_at")  # nothing yet
        seen.asked("UPDATE SchedulerNode SET drain_asked_at = seen_at")
        seen.wait_for_node("consuming = 0")
        stop_politely([worker])


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
