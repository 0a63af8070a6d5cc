"""A cancel ends an execution wherever it is, by the command and by its row, in running systems."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from cronhare.domain.execution import Execution, State
from tests.faults.arena import Arena
from tests.integration.shell import Shell
from tests.production.plant import PATIENCE, SCHEDULER, plant
from tests.services.finding import wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`

JOBS = """
[tasks.parent]
id = 1
command = ["/bin/sh", "-c", "sleep 600 & echo $! > grandchild; wait"]

[tasks.asks]
id = 2
url = "http://127.0.0.1:{port}/"

[tasks.sleeps]
id = 3
command = ["/bin/sh", "-c", "echo $CRON_EXECUTION_ID >> begun; sleep 600"]

[tasks.fails]
id = 4
command = ["/bin/false"]
retry = {{ attempts = 4, backoff = {{ type = "fixed", delay = 3600000 }} }}

[schedules]
unpublished = {{ task = "sleeps", schedule = "@yearly" }}
parent = {{ task = "parent", schedule = "@yearly" }}
asks = {{ task = "asks", schedule = "@yearly" }}
retried = {{ task = "fails", schedule = "@yearly" }}
gated = {{ task = "sleeps", schedule = "@yearly", concurrency = {{ key = "customer", limit = 1 }} }}
queued = {{ task = "sleeps", schedule = "@yearly" }}
"""

#: The places of the worker: parent, asks, the first gated, and one that has begun before queued.
PLACES = 4


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Take connections, and never answer."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield listening


class System:
    """Runs of each kind, in a system that runs."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.shell = Shell(arena.folder)

    def command(self, *arguments: str) -> str:
        said = self.shell(*arguments, **self.arena.settings)
        assert said.status == 0, said.err
        return said.out

    def run(self, name: str) -> int:
        id_: int = json.loads(self.command("run", name, "--json"))["id"]
        return id_

    def of(self, id_: int) -> Execution:
        found = self.arena.records.execution(id_)
        assert found is not None
        return found

    def wait(self, states: Mapping[int, State]) -> None:
        def are() -> bool:
            return all(self.of(id_).state is state for id_, state in states.items())

        wait_until(
            are, seconds=PATIENCE, every=0.1, what=f"{states}, not {self.arena.said()[-3000:]}"
        )

    def cancel_by_row(self, id_: int) -> None:
        set_flag = f"UPDATE SchedulerExecution SET cancel_requested = 1 WHERE id = {id_}"
        with self.arena.engine.begin() as ledger:
            ledger.execute(text(set_flag))

    def cancel_by_command(self, id_: int) -> None:
        self.command("executions", "cancel", str(id_))


def cancel_everywhere(
    system: System, start: Callable[[], object], server: socket.socket, *, swapped: bool
) -> None:
    ways = [system.cancel_by_command, system.cancel_by_row]
    one, other = reversed(ways) if swapped else ways
    unpublished = system.run("unpublished")
    other(unpublished)
    start()
    retried = system.run("retried")
    system.wait({retried: State.RETRYING, unpublished: State.CANCELLED})
    running = {name: system.run(name) for name in ("parent", "asks", "gated")}
    system.wait(dict.fromkeys(running.values(), State.RUNNING))
    held = system.run("gated")
    system.wait({held: State.HELD})
    last = system.run("queued")
    system.wait({last: State.RUNNING})
    queued = system.run("queued")
    system.wait({queued: State.PUBLISHED})
    grandchild = int((system.arena.folder / "grandchild").read_text())

    for cancel, ids in (
        (other, (queued,)),  # first: the place of another that ends is its own
        (one, (retried, running["parent"], held)),
        (other, (running["asks"],)),
    ):
        for id_ in ids:
            cancel(id_)
    system.wait(
        dict.fromkeys((retried, held, queued, running["parent"], running["asks"]), State.CANCELLED)
    )
    one(running["gated"])
    other(last)
    system.wait({running["gated"]: State.CANCELLED, last: State.CANCELLED})

    wait_until(lambda: not Path(f"/proc/{grandchild}").exists(), seconds=PATIENCE, what="its end")
    begun = (system.arena.folder / "begun").read_text().split()
    assert begun == [str(running["gated"]), str(last)]
    asked, _ = server.accept()
    with asked:
        asked.settimeout(PATIENCE)
        while asked.recv(65_536):  # until the worker lets go of it
            pass


def test_in_the_embedded_system(tmp_path: Path, server: socket.socket) -> None:
    port = server.getsockname()[1]
    arena = Arena(tmp_path, 0, CRON_HTTP_ALLOWED_HOSTS="127.0.0.1", CRON_CONCURRENCY=str(PLACES))
    (tmp_path / "jobs.toml").write_text(JOBS.format(port=port))
    arena.apply()
    with closing(arena):
        cancel_everywhere(System(arena), arena.start, server, swapped=False)


def test_in_production(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path, server: socket.socket
) -> None:
    jobs = JOBS.format(port=server.getsockname()[1])
    with plant(tmp_path, rabbitmq, mariadb, jobs, CRON_HTTP_ALLOWED_HOSTS="127.0.0.1") as built:

        def start() -> None:
            built.start(*SCHEDULER)
            built.start_worker(concurrency=PLACES)

        cancel_everywhere(System(built.arena), start, server, swapped=True)
        built.stop()
