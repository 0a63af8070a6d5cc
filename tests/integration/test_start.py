"""What scheduler and worker make of a ledger that is not as it should be when they start."""

import asyncio
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import attrs
import pytest
from sqlalchemy import URL

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from tests.integration.shell import PROGRAM, clean_environment
from tests.services.finding import free_port
from tests.services.proxy import proxy

pytestmark = pytest.mark.integration

COMMANDS = ("scheduler", "worker")

#: What both say once they have begun, for there is no broker.
BEGUN = "see that CRON_BROKER_URL names its host"


@attrs.frozen
class Process:
    popen: subprocess.Popen[bytes]
    log: Path

    def until(self, words: str) -> None:
        deadline = time.monotonic() + 60
        while words not in self.log.read_text():
            assert time.monotonic() < deadline, f"{words!r} did not come:\n{self.log.read_text()}"
            assert self.popen.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def end(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(timeout=60)


class StartRequest(Protocol):
    """Starts a command on a ledger. The broker is away by default: that keeps nobody from it."""

    def __call__(self, command: str, ledger: URL | str, broker: str = ..., /) -> Process: ...


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartRequest]:
    started: list[subprocess.Popen[bytes]] = []

    away = f"amqp://127.0.0.1:{free_port()}/"

    def start(command: str, ledger: URL | str, broker: str = away, /) -> Process:
        url = ledger if isinstance(ledger, str) else ledger.render_as_string(hide_password=False)
        (tmp_path / "jobs.toml").write_text('[tasks.any]\ncommand = ["true"]\n')
        servers = {"CRON_DATABASE_URL": url, "CRON_BROKER_URL": broker, "CRON_LOG_LEVEL": "DEBUG"}
        servers["CRON_JOBS"] = "jobs.toml"
        with (tmp_path / "log").open("wb") as log:
            popen = subprocess.Popen(
                [PROGRAM, command], cwd=tmp_path, env=clean_environment() | servers, stderr=log
            )
        started.append(popen)
        return Process(popen, tmp_path / "log")

    yield start
    for popen in started:
        popen.kill()
        popen.wait()


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite3'}"
    engine = open_engine(url)
    upgrade(engine)
    engine.dispose()
    return url


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_ledger_it_makes_none_and_says_what_does(
    start: StartRequest, tmp_path: Path, command: str
) -> None:
    process = start(command, "sqlite:///new.sqlite3")

    assert process.popen.wait(timeout=60) == 3
    assert "/new.sqlite3. To use another, set CRON_DATABASE_URL" in process.log.read_text()
    assert "run `cronhare db upgrade`" in process.log.read_text()
    assert not [*tmp_path.glob("new.sqlite3*")]
    assert "Traceback" not in process.log.read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_on_a_newer_schema_it_works_and_says_so(
    start: StartRequest, ledger: str, command: str
) -> None:
    engine = open_engine(ledger)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE cronhare_schema SET version_num = '9999'")
    engine.dispose()

    process = start(command, ledger)
    process.until("was made by a newer cronhare")
    process.until(BEGUN)

    assert process.end() == 0


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_ledger_that_is_away_is_waited_for(
    start: StartRequest, migrated_mysql: URL, command: str
) -> None:
    port = free_port()
    process = start(command, migrated_mysql.set(host="127.0.0.1", port=port))
    process.until("The ledger cannot be used, asking again")
    assert migrated_mysql.port is not None

    async with proxy(migrated_mysql.port, listen=port) as (_, link):
        await asyncio.to_thread(process.until, BEGUN)
        assert link.connections > 0
        assert await asyncio.to_thread(process.end) == 0


def test_while_the_ledger_is_away_a_signal_ends_it(start: StartRequest) -> None:
    process = start("worker", f"mysql+pymysql://u:secret@127.0.0.1:{free_port()}/cronhare")
    process.until("The ledger cannot be used")

    assert process.end() == 0
    assert "secret" not in process.log.read_text()


def test_a_scheduler_says_what_it_is_and_that_it_works(
    start: StartRequest, ledger: str, vhost: str
) -> None:
    process = start("scheduler", ledger, vhost)

    process.until("; queues cron_scheduler")
    process.until("Scheduling; edits are seen within 5 s")
    process.until("A probe came through each of 16 lanes")

    assert process.end() == 0


def test_a_worker_says_what_it_is_and_that_it_works(
    start: StartRequest, ledger: str, vhost: str
) -> None:
    process = start("worker", ledger, vhost)

    process.until("; queues cron_scheduler; 1 task of jobs.toml, 1 at a time")
    process.until("Consuming cron_scheduler")

    assert process.end() == 0
