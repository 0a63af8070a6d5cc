"""The schema on servers: made, upgraded, taken over and kept up."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import URL, Engine, event

from cronhare.adapters.sql.dialects import mysql, open_engine
from cronhare.adapters.sql.dialects.servers import REQUIREMENTS
from cronhare.adapters.sql.migrations import upgrade as schema
from cronhare.adapters.sql.migrations.upgrade import check_schema, upgrade
from cronhare.adapters.sql.tables.tables import metadata
from cronhare.domain.execution import Execution, State
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports import LedgerOutdated, LedgerUnavailable
from cronhare.ports.records import ExecutionFilter
from cronhare.ports.schedules import StoredSchedule
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import draft, sql_ledger
from tests.services import postgresql
from tests.services.mariadb import run

pytestmark = pytest.mark.integration

NOW = datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC)

ORIGINAL = Path(__file__).parent / "original_mariadb.sql"


def opened(url: URL) -> Engine:
    return open_engine(url.render_as_string(hide_password=False))


@pytest.fixture
def engine(empty_mysql: URL) -> Iterator[Engine]:
    engine = opened(empty_mysql)
    yield engine
    engine.dispose()


def stored(engine: Engine) -> dict[str, StoredSchedule]:
    rows = sql_ledger(FrozenClock(NOW), engine).schedules.schedules()
    return {row.name: row for row in rows}


@pytest.fixture
def original(empty_mysql: URL) -> URL:
    """A database that holds what a system before ours has left."""
    statements = ORIGINAL.read_text().split(";\n")
    run(empty_mysql, *(statement for statement in statements if statement.strip()))
    return empty_mysql


def lacking(engine: Engine) -> list[Any]:
    """What the statements expect and is not there. An adopted table may have more.

    Foreign keys to schedules, and an index that is a partial one, are for SQLite.
    """

    def counts(element: Any, name: str | None, kind: str, *_: object) -> bool:  # noqa: ANN401
        if kind == "foreign_key_constraint":
            return str(element.elements[0].target_fullname) != "Scheduler.id"
        return kind != "index" or name != "ix_execution_lease"

    with engine.connect() as connection:
        options = {
            "version_table": schema.VERSION_TABLE,
            "compare_type": False,
            "include_object": counts,
        }
        found: list[Any] = compare_metadata(
            MigrationContext.configure(connection, opts=options), metadata
        )
    return [one for one in found if str(one[0]).startswith("add_")]


@contextmanager
def cut_off_after(statements: int) -> Iterator[None]:
    """Let all engines execute so many statements, and then end as a killed process would."""
    remaining = iter(range(statements))

    def cut(*_: object) -> None:
        if next(remaining, None) is None:
            raise ConnectionAbortedError

    event.listen(Engine, "before_cursor_execute", cut)
    try:
        with suppress(ConnectionAbortedError):
            yield
    finally:
        event.remove(Engine, "before_cursor_execute", cut)


def executions(engine: Engine) -> list[Execution]:
    records = sql_ledger(FrozenClock(NOW), engine).records
    return list(reversed(records.executions(ExecutionFilter(limit=10_000))))


@pytest.mark.parametrize("before", ["nothing", "original"])
def test_an_upgrade_that_is_cut_off_anywhere_is_gone_on_with(
    request: pytest.FixtureRequest, engine: Engine, empty_mysql: URL, before: str
) -> None:
    if before == "original":
        request.getfixturevalue("original")
    cuts = count(3, 4)

    def upgrade_unless_cut_off() -> bool:
        with cut_off_after(next(cuts)):
            return upgrade(engine, NOW)[-1:] == [schema.HEAD]
        with pytest.raises(LedgerOutdated):
            check_schema(engine)
        return False

    tries = 1
    while not upgrade_unless_cut_off():
        tries += 1

    assert tries > 5
    assert lacking(engine) == []
    [cleanup] = run(empty_mysql, "SELECT count(*) FROM Scheduler WHERE system_id = 1")
    assert cleanup == (1,)
    assert {one.state for one in executions(engine)} <= {State.SUCCEEDED}


def test_a_server_that_is_too_old_is_told(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = {name: attrs.evolve(each, oldest=(99, 1)) for name, each in REQUIREMENTS.items()}
    monkeypatch.setattr(mysql, "REQUIREMENTS", newer)

    with pytest.raises(LedgerUnavailable, match=r"cannot keep the ledger: 99\.1 or newer"):
        upgrade(engine)


# Adoption


def test_adopted_schedules_keep_their_columns_and_answer_to_their_ids(
    engine: Engine, original: URL
) -> None:
    upgrade(engine, NOW)

    every_minute, once, disabled = stored(engine).values()
    assert every_minute.draft is not None
    assert once.draft is not None
    assert disabled.draft is not None
    assert (every_minute.name, every_minute.draft.task) == ("#16", TaskRef("report", 25))
    assert every_minute.draft.params == '{"controller": "RefreshUserToken"}'
    assert (once.name, once.draft.task) == ("#17", TaskRef("worker", 3))
    assert once.draft.date_time == datetime(2026, 3, 2, 12, 30, tzinfo=UTC)
    assert not disabled.draft.status
    assert {row.updated_at for row in (every_minute, once, disabled)} == {NOW}
    kept = run(original, "SELECT user_id, language_id, description FROM Scheduler WHERE id = 16")
    assert kept == [(7, 1, "d'accord")]
    assert lacking(engine) == []


@pytest.mark.usefixtures("original")
def test_adopted_executions_count_as_succeeded_at_their_minute(engine: Engine) -> None:
    upgrade(engine, NOW)

    first, second, ahead, third = executions(engine)

    assert {one.state for one in (first, second, ahead, third)} == {State.SUCCEEDED}
    assert first.executed_at == datetime(2026, 3, 2, 11, 58, 3, tzinfo=UTC)
    assert first.due_at == datetime(2026, 3, 2, 11, 58, tzinfo=UTC)
    assert (first.key, first.container_id) == ("cron-2026-3-2-11-58", "web-1-4711")
    assert (first.task, third.task) == (TaskRef("report", 25), TaskRef("reminder", 4))
    assert second.executed_at == datetime(2026, 3, 2, 11, 59, tzinfo=UTC)
    assert ahead.key == "adopted-3-cron-2026-3-2-13-0"


@pytest.mark.usefixtures("original")
def test_an_adopted_ledger_claims_starts_and_keeps_its_schedules_like_any_other(
    engine: Engine,
) -> None:
    upgrade(engine, NOW)
    clock = FrozenClock(NOW)
    ledger = sql_ledger(clock, engine)
    ledger.plan_edited()
    clock.move_to(NOW.replace(minute=1, second=0, microsecond=7))

    [execution] = ledger.claim_due().claimed
    ledger.succeeded(execution)
    ledger.save(draft("naïve 😀"))

    assert (execution.schedule_name, execution.key) == ("#16", "cron-2026-3-2-12-1")
    assert ledger.seen(execution).executed_at == clock.now()
    assert "naïve 😀" in [row.name for row in ledger.schedules.schedules()]


# PostgreSQL


PAGE = Path(__file__).parents[2] / "docs" / "operators.md"

#: Another system's two tables, as somebody would have made them by hand.
SEEDS = """
CREATE TABLE Scheduler (
    id serial PRIMARY KEY, schedule varchar(255), date_time timestamp, params jsonb,
    status boolean DEFAULT true, stay_alive boolean, description text, report_id integer,
    worker_id integer, reminder_id integer, user_id integer, group_id integer,
    language_id integer, created_at timestamp
);
CREATE TABLE SchedulerExecution (
    id serial PRIMARY KEY, scheduler_id integer REFERENCES Scheduler (id),
    execution_key varchar(255), executed_at timestamp, container_id varchar(255)
);
INSERT INTO Scheduler (id, schedule, params, status, report_id, user_id)
    VALUES (16, '* * * * *', '{"controller": "RefreshUserToken"}', true, 25, 7);
INSERT INTO Scheduler (id, date_time, status, worker_id)
    VALUES (17, '2026-03-02 13:30:00', true, 3);
INSERT INTO SchedulerExecution (scheduler_id, execution_key, executed_at, container_id)
    VALUES (16, 'cron-2026-3-2-11-59', '2026-03-02 11:59:00.25', 'web-1-4711');
"""


@pytest.fixture
def plain(empty_postgresql: URL) -> Iterator[Engine]:
    engine = opened(empty_postgresql)
    yield engine
    engine.dispose()


def test_tables_that_were_here_before_are_taken_over_with_their_rows(
    plain: Engine, empty_postgresql: URL
) -> None:
    postgresql.run(empty_postgresql, *(each for each in SEEDS.split(";\n") if each.strip()))

    upgrade(plain, NOW)

    check_schema(plain)
    ledger = sql_ledger(FrozenClock(NOW), plain)
    [execution] = ledger.records.executions(ExecutionFilter(limit=9))
    assert (execution.state, execution.key) == (State.SUCCEEDED, "cron-2026-3-2-11-59")
    assert execution.executed_at == datetime(2026, 3, 2, 11, 59, 0, 250_000, tzinfo=UTC)
    first, second = ledger.schedules.schedules()
    assert first.draft is not None
    assert (first.draft.status, first.draft.params) == (True, '{"controller": "RefreshUserToken"}')
    assert second.draft is not None
    assert second.draft.date_time == datetime(2026, 3, 2, 13, 30, tzinfo=UTC)
    [[created]] = postgresql.run(
        empty_postgresql,
        "INSERT INTO Scheduler (schedule, status, report_id) VALUES ('* * * * *', 1, 1)",
        "SELECT created_at IS NOT NULL AND status = 1 FROM Scheduler WHERE report_id = 1",
    )
    assert created


def test_the_statements_of_the_operators_page_run(plain: Engine, empty_postgresql: URL) -> None:
    upgrade(plain)
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    statements = [each for block in blocks for each in block.split(";") if each.strip()]

    assert len(statements) >= 6
    for statement in statements:
        postgresql.run(empty_postgresql, statement)


def test_the_role_of_the_operators_page_may_work_and_change_no_table(
    plain: Engine, empty_postgresql: URL
) -> None:
    upgrade(plain)
    page = PAGE.read_text(encoding="utf-8")
    grants = re.findall(r"^(?:GRANT|ALTER DEFAULT).* TO cronhare_worker;$", page, re.MULTILINE)
    assert len(grants) >= 4
    role = f"worker_{empty_postgresql.database}"
    postgresql.run(empty_postgresql, f"CREATE ROLE {role} LOGIN PASSWORD 'w'")
    postgresql.run(empty_postgresql, *(grant.replace("cronhare_worker", role) for grant in grants))
    url = empty_postgresql.set(username=role, password="w")
    as_worker = open_engine(url.render_as_string(hide_password=False))
    ledger = sql_ledger(FrozenClock(NOW), as_worker)

    ledger.plan_edited()
    ledger.failed()
    check_schema(as_worker)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner"):
        postgresql.run(url, "DROP TABLE Scheduler")

    as_worker.dispose()
    postgresql.run(empty_postgresql, f"DROP OWNED BY {role}", f"DROP ROLE {role}")
