"""Schedulers and workers beside private servers: RabbitMQ and MariaDB from the machine's binaries.

They are started for the benchmark and thrown away after it, and are what the tests use: found at
`CRON_TEST_BROKER_URL` and `CRON_TEST_DATABASE_URL` if somebody keeps them, else in Docker, else
started here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from dependency_injector import providers
from pymysql import Connection
from samples import TRUE, WRITTEN, drafts
from sqlalchemy import event, make_url

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.processes.lifetime import tune_gc
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.working import WorkingContainer
from tests.services import databases, mariadb, rabbitmq

_KEEP = "CREATE TABLE kept_plans AS SELECT * FROM SchedulerPlan"
_RESTORE = (
    "DELETE FROM ExecutionAttempt",
    "DELETE FROM SchedulerExecution",
    "DELETE FROM ExecutionGate",
    "DELETE FROM SchedulerPlan",
    "INSERT INTO SchedulerPlan SELECT * FROM kept_plans",
)


@attrs.frozen
class Production:
    """A broker, and databases that are filled once and put back before each measurement."""

    broker: rabbitmq.Server
    database: databases.Server
    _filled: dict[tuple[int, int, int], str] = attrs.field(factory=dict)

    def ledger(self, count: int, *, busy: int, keys: int = 0) -> str:
        """Give the URL of a ledger with *count* planned schedules, *busy* of them due at `BUSY`.

        They share so many concurrency *keys*, if any.
        """
        url = self._filled.get((count, busy, keys))
        if url is None:
            url = self._filled[count, busy, keys] = self._fill(count, busy, keys)
        databases.run(make_url(url), *_RESTORE)
        return url

    def _fill(self, count: int, busy: int, keys: int) -> str:
        """Write and plan the schedules in sessions whose clock stands at `WRITTEN`."""
        name = f"bench_{count}_{busy}_{keys}"
        databases.run(self.database.url, f"CREATE DATABASE {name}")
        url = self.database.url.set(database=name).render_as_string(hide_password=False)
        upgrading = open_engine(url)
        upgrade(upgrading)
        upgrading.dispose()
        with opened(url, "memory://") as container:
            if not databases.on_postgresql(self.database.url):  # whose clock none can stop
                event.listen(container.engine(), "connect", _stand_still)
            made = drafts(count, busy=busy, keys=keys)
            container.schedules().save(made, source=None, now=WRITTEN)
            container.dispatcher().tick(WRITTEN)
        databases.run(make_url(url), _KEEP)
        return url


@contextmanager
def production(folder: Path) -> Iterator[Production]:
    """Start the servers, or find them."""
    for name in ("rabbitmq", "mariadb"):
        (folder / name).mkdir()
    with (
        rabbitmq.server(folder / "rabbitmq") as broker,
        mariadb.server(folder / "mariadb") as database,
    ):
        yield Production(broker, database)


@contextmanager
def opened(url: str, broker_url: str) -> Iterator[WorkingContainer]:
    """Give everything that works on this ledger and this broker."""
    settings = attrs.evolve(Settings.read(), database_url=url, broker_url=broker_url)
    container = WorkingContainer(
        settings=settings,
        tasks=providers.Object((TRUE,)),
        queues=providers.Object((MAIN_QUEUE,)),
    )
    tune_gc()  # as the processes do
    try:
        yield container
    finally:
        container.broker().close()
        container.publishing_threads().shutdown()
        container.ledger_threads().shutdown()
        container.engine().dispose()


def _stand_still(connection: "Connection[Any]", _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET timestamp = {WRITTEN.timestamp()}")
