import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import URL

from cronhare.adapters.process.runner import ProcessRunner
from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.entrypoints.settings.settings import Settings
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import (
    NOON,
    Ledger,
    Shell,
    memory_ledger,
    server_ledger,
    sqlite_ledger,
)
from tests.integration.rules import Refusing, refusing_in
from tests.memory_ledger import memory_ledgers
from tests.services import databases
from tests.services import postgresql as postgresql_service
from tests.services import rabbitmq as rabbitmq_service
from tests.services.finding import missing
from tests.services.mariadb import Server, connect
from tests.services.mariadb import server as mariadb_server

if TYPE_CHECKING:
    from cronhare.entrypoints.container import Container
    from tests.integration.web import Site

__all__ = ["memory_ledgers"]


@pytest.fixture
async def runner() -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    yield runner
    await runner.close()


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(NOON)


@pytest.fixture
def memory(clock: FrozenClock) -> Ledger:
    return memory_ledger(clock)


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The migrations take longer than a test: they run once, and each test copies the file."""
    path = tmp_path_factory.mktemp("sqlite") / "migrated.db"
    migrate(f"sqlite:///{path}")
    return path


def migrate(url: str) -> None:
    engine = open_engine(url)
    upgrade(engine)
    engine.dispose()


@pytest.fixture
def on_sqlite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, migrated_sqlite: Path) -> Settings:
    """Settings that name an empty ledger, *ledger.db* in the test's folder; as does its process."""
    copyfile(migrated_sqlite, tmp_path / "ledger.db")
    monkeypatch.setenv("CRON_DATABASE_URL", f"sqlite:///{tmp_path}/ledger.db")
    return Settings.read()


@pytest.fixture
def web(container: "Container") -> "Iterator[Site]":
    """`cronhare web` with the container of a test's own file."""
    from tests.integration.web import site  # noqa: PLC0415 - most tests need no server of HTTP

    with site(container) as found:
        yield found


@pytest.fixture
def sqlite(clock: FrozenClock, migrated_sqlite: Path, tmp_path: Path) -> Iterator[Ledger]:
    path = tmp_path / "ledger.db"
    copyfile(migrated_sqlite, path)
    with sqlite_ledger(clock, path) as ledger:
        yield ledger


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of MariaDB or MySQL, whichever is found."""
    with mariadb_server(tmp_path_factory.mktemp("mariadb")) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_mysql(mariadb: Server) -> Iterator[URL]:
    """A database with our schema, which its tests empty."""
    with databases.database(mariadb) as url:
        migrate(url.render_as_string(hide_password=False))
        yield url


@pytest.fixture
def empty_mysql(mariadb: Server) -> Iterator[URL]:
    """A database without anything in it."""
    with databases.database(mariadb) as url:
        yield url


@pytest.fixture
def mysql(clock: FrozenClock, migrated_mysql: URL) -> Iterator[Ledger]:
    with server_ledger(clock, migrated_mysql) as ledger:
        yield ledger


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgresql_service.Server]:
    with postgresql_service.server() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql_server: postgresql_service.Server) -> Iterator[URL]:
    """A database with our schema, which its tests empty."""
    with databases.database(postgresql_server) as url:
        migrate(url.render_as_string(hide_password=False))
        yield url


@pytest.fixture
def empty_postgresql(postgresql_server: postgresql_service.Server) -> Iterator[URL]:
    """A database without anything in it."""
    with databases.database(postgresql_server) as url:
        yield url


@pytest.fixture
def postgresql(clock: FrozenClock, migrated_postgresql: URL) -> Iterator[Ledger]:
    with server_ledger(clock, migrated_postgresql) as ledger:
        yield ledger


@pytest.fixture
def postgresql_shell(migrated_postgresql: URL) -> Iterator[Shell]:
    with closing(postgresql_service.connect(migrated_postgresql)) as session:

        def execute(statement: str) -> list[tuple[Any, ...]]:
            cursor = session.execute(statement)
            return cursor.fetchall() if cursor.description else []

        yield execute


#: The databases on servers, each as a parameter.
ON_SERVERS = [pytest.param(name, marks=pytest.mark.integration) for name in ("mysql", "postgresql")]


@pytest.fixture(params=["sqlite", *ON_SERVERS])
def fresh_ledger(request: pytest.FixtureRequest) -> Ledger:
    """A ledger as it is on its first day."""
    ledger: Ledger = request.getfixturevalue(request.param)
    return ledger


@pytest.fixture
def ledger(fresh_ledger: Ledger) -> Ledger:
    """A ledger whose own schedule, the daily cleanup, is planned."""
    fresh_ledger.plan_edited()
    return fresh_ledger


@pytest.fixture(params=["sqlite", *ON_SERVERS])
def database(request: pytest.FixtureRequest) -> str:
    """Names a database that people can write into beside us."""
    name: str = request.param
    return name


@pytest.fixture
def database_ledger(database: str, request: pytest.FixtureRequest) -> Ledger:
    """A ledger as `ledger` is, in *database*."""
    ledger: Ledger = request.getfixturevalue(database)
    ledger.plan_edited()
    return ledger


@pytest.fixture
def shell(database: str, request: pytest.FixtureRequest) -> Shell:
    shell: Shell = request.getfixturevalue(f"{database}_shell")
    return shell


@pytest.fixture
def refusing(database: str, shell: Shell) -> Refusing:
    return refusing_in(database, shell)


@pytest.fixture
def sqlite_shell(sqlite: Ledger, tmp_path: Path) -> Iterator[Shell]:  # noqa: ARG001 - it made the file
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
        yield lambda statement: connection.execute(statement).fetchall()


@pytest.fixture
def mysql_shell(migrated_mysql: URL) -> Iterator[Shell]:
    """With the server's own settings, and dates as careless as they come."""
    with closing(connect(migrated_mysql)) as session, session.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")

        def execute(statement: str) -> list[tuple[Any, ...]]:
            cursor.execute(statement)
            return list(cursor.fetchall())

        yield execute


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rabbitmq_service.Server]:
    """A broker; each test takes a vhost of it."""
    with rabbitmq_service.server(tmp_path_factory.mktemp("rabbitmq")) as server:
        yield server


@pytest.fixture
def vhost(rabbitmq: rabbitmq_service.Server) -> Iterator[str]:
    """The URL of a vhost with nothing in it."""
    with rabbitmq.vhost() as url:
        yield url


@pytest.fixture
def own_rabbitmq(rabbitmq: rabbitmq_service.Server) -> rabbitmq_service.Server:
    """A broker that may be hurt."""
    if not rabbitmq.is_ours:
        missing("RabbitMQ that may be stopped", rabbitmq_service.HURT)
    return rabbitmq
