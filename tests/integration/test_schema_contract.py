"""The schema on all databases: made once, asked for, and kept right by its constraints."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations import upgrade as schema
from cronhare.adapters.sql.migrations.upgrade import check_schema, upgrade
from cronhare.adapters.sql.tables.tables import metadata
from cronhare.ports import LedgerOutdated, LedgerUnavailable
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import Ledger, Shell, sql_ledger

NOW = datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC)

DATABASES = [
    "sqlite",
    pytest.param("mysql", marks=pytest.mark.integration),
    pytest.param("postgresql", marks=pytest.mark.integration),
]

#: Gives engines for one database that holds nothing yet.
Open = Callable[[], Engine]


@pytest.fixture(params=DATABASES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    if request.param == "sqlite":
        path = tmp_path / "ledger.db"
        path.touch()
        url = f"sqlite:///{path}"
    else:
        given = request.getfixturevalue(f"empty_{request.param}")
        url = given.render_as_string(hide_password=False)
    engines: list[Engine] = []

    def new() -> Engine:
        engines.append(open_engine(url))
        return engines[-1]

    yield new
    for engine in engines:
        engine.dispose()


def test_an_upgrade_makes_all_tables_once(opened: Open) -> None:
    engine = opened()

    first, second = upgrade(engine), upgrade(engine)

    check_schema(engine)
    assert (first, second) == ([schema.HEAD], [])
    there = {name.lower() for name in inspect(engine).get_table_names()}
    assert {name.lower() for name in metadata.tables} <= there


def test_of_four_that_upgrade_at_once_one_does(opened: Open) -> None:
    engines = [opened() for _ in range(4)]

    with ThreadPoolExecutor(len(engines)) as pool:
        applied = list(pool.map(upgrade, engines))

    assert sorted(applied) == [[], [], [], [schema.HEAD]]


def test_a_table_of_somebody_else_under_our_name_is_left_alone(opened: Open) -> None:
    engine = opened()
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE FailedTask (id INTEGER)"))

    with pytest.raises(LedgerUnavailable, match=r"(?i)FailedTask"):
        upgrade(engine)

    there = inspect(engine).get_table_names()
    [name] = [each for each in there if each.lower() == "failedtask"]
    assert [each["name"] for each in inspect(engine).get_columns(name)] == ["id"]
    if engine.dialect.name != "mysql":  # which commits each statement by itself
        assert there == [name]


def test_an_empty_database_is_told_from_a_ledger(opened: Open) -> None:
    engine = opened()

    with pytest.raises(LedgerOutdated, match="holds no ledger yet: run `cronhare db upgrade`"):
        check_schema(engine)
    with pytest.raises(LedgerOutdated, match=r"looking for the next due instant .*db upgrade"):
        sql_ledger(FrozenClock(NOW), engine).claims.next_due()


@pytest.mark.parametrize(
    ("revision", "advice"),
    [("9999", "newer cronhare"), ("0039", "which no release has made")],
)
def test_a_ledger_of_another_schema_is_left_alone(opened: Open, revision: str, advice: str) -> None:
    engine = opened()
    upgrade(engine)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {schema.VERSION_TABLE} SET version_num = '{revision}'"))

    for ask in (check_schema, upgrade):
        with pytest.raises(LedgerOutdated, match=advice):
            ask(engine)


def test_the_newest_migration_is_the_one_that_the_program_asks_for() -> None:
    migrations = ScriptDirectory(str(Path(schema.__file__).parent))

    assert migrations.get_current_head() == schema.HEAD


def test_a_value_that_is_none_of_ours_is_refused(database_ledger: Ledger, shell: Shell) -> None:
    database_ledger.failed()
    before = database_ledger.executions()

    for change in (
        "SchedulerExecution SET state = 'paused'",
        "SchedulerExecution SET attempt = 0",
        "SchedulerExecution SET deaths = -1",
        "SchedulerExecution SET cancel_requested = 7",
        "ExecutionAttempt SET ending = 'bad'",
        "ExecutionAttempt SET attempt = 0",
        "FailedTask SET kind = 'odd'",
    ):
        with pytest.raises(Exception, match=r"(?i)constraint"):
            shell(f"UPDATE {change}")

    assert database_ledger.executions() == before


def test_sqlite_takes_a_moment_alone_for_a_moment(sqlite: Ledger, sqlite_shell: Shell) -> None:
    sqlite.failed()

    for time in ("'garbage'", "12", "x'00'"):
        with pytest.raises(Exception, match="CHECK constraint"):
            sqlite_shell(f"UPDATE SchedulerExecution SET check_at = {time}")
