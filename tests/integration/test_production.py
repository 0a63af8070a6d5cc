"""Schedulers and workers as processes of their own, on a real broker and a real database."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.faults.arena import Arena
from tests.faults.house import stop_politely
from tests.faults.judging import judge
from tests.services import mariadb as mariadb_service
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

T = TypeVar("T")

WORKER = ("worker", "--jobs", "jobs.toml", "--concurrency", "4")


@pytest.fixture
def arena(rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path) -> Iterator[Arena]:
    with rabbitmq.vhost() as broker_url, mariadb_service.database(mariadb) as url:
        database_url = url.render_as_string(hide_password=False)
        arena = Arena(tmp_path, 1, CRON_DATABASE_URL=database_url, CRON_BROKER_URL=broker_url)
        yield arena
        arena.engine.dispose()


def test_two_schedulers_and_two_workers_lose_and_double_nothing_when_one_of_each_is_killed(
    arena: Arena,
) -> None:
    applied = arena.start("apply", "jobs.toml")
    assert applied.wait(timeout=90) == 0
    processes = [arena.start(*command) for command in (("scheduler",), WORKER) * 2]
    try:
        for _ in range(6):
            arena.ask_for_runs()
        wait_until(arena.effects.read_text, arena)

        for victim in processes[:2]:
            victim.send_signal(signal.SIGKILL)
            victim.wait()
        processes += [arena.start("scheduler"), arena.start(*WORKER)]
        settled_at = wait_until(arena.settled_at, arena)
        stop_politely(processes[2:])
    finally:
        for process in processes:
            process.kill()
            process.wait()

    figures = judge(arena, cycles=1, recoveries=[], settled_at=settled_at)
    assert (figures.lost, figures.doubled, figures.stuck, figures.orphans) == (0, 0, 0, 0)
    assert figures.executions >= 30


def wait_until(tell: Callable[[], T | None], arena: Arena) -> T:
    """Wait for the first answer that says something."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if answer := tell():
            return answer
        time.sleep(0.1)
    raise AssertionError(arena.said()[-3000:])
