"""Making a schema on SQLite, and adopting tables that are there."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.domain.execution import Execution
from cronhare.domain.schedules.planning import Plan, Planned, plan
from cronhare.ports.records import ExecutionFilter
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import sql_ledger

NOW = datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC)

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


def original_execution(key: str, executed_at: str | None, *, id_: int = 1) -> str:
    moment = "NULL" if executed_at is None else f"'{executed_at}'"
    return (
        "INSERT INTO SchedulerExecution"
        " (id, scheduler_id, execution_key, executed_at, container_id)"
        f" VALUES ({id_}, 16, '{key}', {moment}, 'web-1-4711');"
    )


def adopted(engine: Engine) -> list[Execution]:
    upgrade(engine, NOW)
    records = sql_ledger(FrozenClock(NOW), engine).records
    return list(reversed(records.executions(ExecutionFilter(limit=100))))


# Adoption


def test_an_adopted_schedule_runs_no_instant_from_before_the_adoption(
    engine: Engine, path: Path
) -> None:
    by_hand(path, ORIGINAL)
    upgrade(engine, NOW)
    clock = FrozenClock(NOW)
    claims = sql_ledger(clock, engine).claims

    def planner(planned: Planned) -> Plan:
        return plan(planned, clock.now())

    clock.advance(timedelta(hours=2))
    edits = claims.plan_edited(now=clock.now(), since=None, limit=9, node="ant", planner=planner)

    assert (edits.looked, edits.claimed) == (3, ())
    assert claims.next_due() == NOW.replace(minute=1, second=0)


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


def test_keys_that_nothing_kept_unique_are_told_apart(engine: Engine, path: Path) -> None:
    twins = [
        original_execution("cron-2025-12-12-8-0", "2025-12-12 08:00:01", id_=id_)
        for id_ in (1, 2, 3)
    ]
    by_hand(path, ORIGINAL + "".join(twins))

    keys = [execution.key for execution in adopted(engine)]

    key = "cron-2025-12-12-8-0"
    assert keys == [key, f"{key}#2", f"{key}#3"]


def test_many_old_executions_are_all_adopted(engine: Engine, path: Path) -> None:
    by_hand(path, ORIGINAL)
    with closing(sqlite3.connect(path)) as connection:
        rows = [(f"old-{number}", "2025-12-12 08:00:00") for number in range(2_500)]
        connection.executemany(
            "INSERT INTO SchedulerExecution (scheduler_id, execution_key, executed_at)"
            " VALUES (16, ?, ?)",
            rows,
        )
        connection.commit()

    upgrade(engine, NOW)

    with closing(sqlite3.connect(path)) as connection:
        states = connection.execute(
            "SELECT state, due_at, count(*) FROM SchedulerExecution GROUP BY 1, 2"
        ).fetchall()
    assert states == [("succeeded", "2025-12-12 08:00:00.000000", 2_500)]
