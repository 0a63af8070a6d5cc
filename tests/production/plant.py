"""Schedulers and workers as processes of their own, on a real broker and a real database.

Nothing is hurt here; `tests.faults` does that.
"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import pika
from pika.exceptions import ChannelClosedByBroker

from cronhare.application.publish import envelope
from cronhare.domain.messages import Signer
from cronhare.domain.schedules.keys import manual_key
from cronhare.domain.topology import MAIN_QUEUE
from tests.faults.arena import Arena, standing
from tests.faults.house import has_begun, stop_politely
from tests.faults.saying import lines
from tests.integration import amqp
from tests.ports import ids_of
from tests.services import databases, rabbitmq
from tests.services.finding import wait_until

Process = subprocess.Popen[bytes]

#: Seconds until a process that does not come is stuck, however busy the machine.
PATIENCE = 60.0

SCHEDULER = ("scheduler",)

TROUBLES = {"WARN", "ERROR"}


@attrs.define(kw_only=True)
class Plant:
    """A vhost, a database with our schema, and the processes that were started on them."""

    arena: Arena
    processes: list[Process] = attrs.field(factory=list)

    @property
    def broker_url(self) -> str:
        return self.arena.settings["CRON_BROKER_URL"]

    def start(self, *command: str, **settings: str) -> Process:
        """Start a command of cronhare; *settings* are its alone."""
        self.processes.append(self.arena.start(*command, **settings))
        return self.processes[-1]

    def start_worker(self, *, concurrency: int = 1, **settings: str) -> Process:
        asked = ("worker", "--jobs", "jobs.toml", "--concurrency", str(concurrency))
        return self.start(*asked, **settings)

    def wait_until_all_work(self, *, workers: int) -> None:
        """Wait until every process has begun, and *workers* of them consume."""
        for process in self.processes:
            wait_until(partial(has_begun, process), seconds=PATIENCE, what="a process's start")
        wait_until(
            lambda: self._ask(amqp.consumers) == workers,
            seconds=PATIENCE,
            every=0.1,
            what=f"the consuming of {workers} workers",
        )

    def waiting(self) -> int:
        return self._ask(amqp.depth)

    def _ask(self, ask: Callable[[str, str], int]) -> int:
        with suppress(ChannelClosedByBroker):  # there is no such queue yet
            return ask(self.broker_url, MAIN_QUEUE)
        return 0

    def lines(self, action: str) -> list[dict[str, Any]]:
        """Give the log lines of one kind, of all processes."""
        return [line for line in lines(self.arena.logs) if line.get("action") == action]

    def troubles(self) -> list[dict[str, Any]]:
        """Give the warnings and errors of all processes, but for the one that SIGTERM asks for."""
        return [
            line
            for line in lines(self.arena.logs)
            if line["level"] in TROUBLES and line.get("action") != "shutdown"
        ]

    def publish_run(self, schedule: str) -> None:
        """Ask for one run, and send its message as a scheduler would."""
        arena = self.arena
        [scheduler_id] = ids_of(arena.schedules, [schedule]).values()
        now, key = arena.claims.now(), manual_key(uuid4())
        run = arena.records.run_now(scheduler_id, key=key, params=None, now=now, node="by-hand")
        message = envelope(run, now=now, signer=Signer()).message
        properties = pika.BasicProperties(
            headers=dict(message.headers), message_id=message.id, delivery_mode=2
        )
        self.publish(message.body, properties)

    def publish(self, body: bytes, properties: pika.BasicProperties | None = None) -> None:
        """Publish anything into the main queue; without properties as somebody else does."""
        with amqp.channel(self.broker_url) as plain:
            plain.basic_publish("", MAIN_QUEUE, body, properties)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask the database, in an operator's session."""
        return databases.run(self.arena.database, statement)

    def stop(self) -> None:
        """Stop everybody as an operator would.

        Raises:
            AssertionError: somebody ended by himself, or did not end well.
        """
        assert not any(each.poll() for each in self.processes), self.arena.said()[-3000:]
        stop_politely(self.processes)


@contextmanager
def plant(
    folder: Path, broker: rabbitmq.Server, database: databases.Server, jobs: str, **settings: str
) -> Iterator[Plant]:
    """Build a plant whose workers have the tasks of a jobs file; its schedules are applied."""
    with standing(folder, broker, database, seed=0, **settings) as arena:
        (folder / "jobs.toml").write_text(jobs)
        arena.apply()
        yield Plant(arena=arena)
