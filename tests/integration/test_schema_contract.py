"""The schema on all databases: made once, kept right by its constraints, and adopted."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, inspect, text

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations import upgrade as schema
from cronhare.adapters.sql.migrations.upgrade import check_schema, upgrade
from cronhare.adapters.sql.tables.tables import metadata
from cronhare.domain.execution import Execution
from cronhare.ports import LedgerOutdated, LedgerUnavailable
from cronhare.ports.records import ExecutionFilter
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import Ledger, Shell, sql_ledger

NOW = datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC)

#: Gives engines for one database that holds nothing yet.
Open = Callable[[], Engine]


@pytest.fixture
def opened(request: pytest.FixtureRequest, database: str, path: Path) -> Iterator[Open]:
    if database == "sqlite":
        path.touch()
        url = f"sqlite:///{path}"
    else:
        given = request.getfixturevalue(f"empty_{database}")
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


# Adopting tables that are there, on SQLite


#: The two tables of docs/compatibility.md, as an object-relational mapper would have made them.
ORIGINAL = """
CREATE TABLE Scheduler (
    id INTEGER PRIMARY KEY AUTOINCREMENT, schedule VARCHAR(255), date_time DATETIME, params JSON,
    status TINYINT(1), stay_alive TINYINT(1), description VARCHAR(255), report_id INTEGER,
    worker_id INTEGER, reminder_id INTEGER, user_id INTEGER, group_id INTEGER, language_id INTEGER
);
CREATE TABLE SchedulerExecution (
    id INTEGER PRIMARY KEY AUTOINCREMENT, scheduler_id INTEGER REFERENCES Scheduler (id),
    execution_key VARCHAR(255), executed_at DATETIME, container_id VARCHAR(255)
);
INSERT INTO Scheduler (id, schedule, params, status, report_id, user_id)
    VALUES (16, '* * * * *', '{"controller": "RefreshUserToken"}', 1, 25, 7);
INSERT INTO Scheduler (id, date_time, status, worker_id)
    VALUES (17, '2026-03-02 13:30:00.000 +01:00', 1, 3);
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{path}")
    yield engine
    engine.dispose()


def by_hand(path: Path, script: str) -> None:
    """Run SQL as another program would: without our driver, and without foreign keys."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


def original_execution(key: str, executed_at: str | None) -> str:
    moment = "NULL" if executed_at is None else f"'{executed_at}'"
    return (
        "INSERT INTO SchedulerExecution (scheduler_id, execution_key, executed_at, container_id)"
        f" VALUES (16, '{key}', {moment}, 'web-1-4711');"
    )


def adopted(engine: Engine) -> list[Execution]:
    upgrade(engine, NOW)
    records = sql_ledger(FrozenClock(NOW), engine).records
    return list(reversed(records.executions(ExecutionFilter(limit=10_000))))


def test_an_adopted_schedule_runs_no_instant_from_before_the_adoption(
    engine: Engine, path: Path
) -> None:
    by_hand(path, ORIGINAL)
    upgrade(engine, NOW)
    ledger = sql_ledger(FrozenClock(NOW + timedelta(hours=2)), engine)

    edits = ledger.plan_edited()

    assert (edits.looked, edits.claimed) == (3, ())
    assert ledger.claims.next_due() == NOW.replace(minute=1, second=0)


@pytest.mark.parametrize(
    ("key", "executed_at", "due_at"),
    [
        ("cron-2025-12-12-8-5", None, datetime(2025, 12, 12, 8, 5, tzinfo=UTC)),
        ("cron-2025-12-12-8-5", "soon", datetime(2025, 12, 12, 8, 5, tzinfo=UTC)),
        ("cron-2025-13-12-8-5", None, NOW.replace(second=0)),
        ("by-hand", None, NOW.replace(second=0)),
    ],
)
def test_an_execution_without_a_time_is_dated_by_its_key(
    engine: Engine, path: Path, key: str, executed_at: str | None, due_at: datetime
) -> None:
    by_hand(path, ORIGINAL + original_execution(key, executed_at))

    [execution] = adopted(engine)

    assert (execution.key, execution.due_at) == (key, due_at)


def test_all_of_many_are_adopted_and_keys_that_nothing_kept_unique_told_apart(
    engine: Engine, path: Path
) -> None:
    key, moment = "cron-2025-12-12-8-0", "2025-12-12 08:00:00"
    many = [original_execution(f"old-{number}", moment) for number in range(2_500)]
    by_hand(path, ORIGINAL + "".join([original_execution(key, moment)] * 3 + many))

    found = adopted(engine)

    assert [one.key for one in found[:4]] == [key, f"{key}#2", f"{key}#3", "old-0"]
    [due_at] = {one.due_at for one in found}
    assert (len(found), f"{due_at:%Y-%m-%d %H:%M:%S}") == (2_503, moment)
