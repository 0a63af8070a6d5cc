"""The schema on PostgreSQL: made, taken over, kept up, and found by the names that people write."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL, Engine, inspect

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import check_schema, upgrade
from cronhare.domain.execution import State
from cronhare.ports.records import ExecutionFilter
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import sql_ledger
from tests.services.postgresql import run

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"

NOW = datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC)

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
def engine(empty_postgresql: URL) -> Iterator[Engine]:
    engine = open_engine(empty_postgresql.render_as_string(hide_password=False))
    yield engine
    engine.dispose()


def test_what_is_paged_by_a_moment_and_an_id_has_an_index_of_both(engine: Engine) -> None:
    upgrade(engine)

    for table, moment, id_ in (
        ("scheduler", "updated_at", "id"),
        ("schedulerplan", "next_due_at", "scheduler_id"),
    ):
        of_pages = [each["column_names"] for each in inspect(engine).get_indexes(table)]
        assert [moment, id_] in of_pages
        assert [moment] not in of_pages


def test_tables_that_were_here_before_are_taken_over_with_their_rows(
    engine: Engine, empty_postgresql: URL
) -> None:
    run(empty_postgresql, *(each for each in SEEDS.split(";\n") if each.strip()))

    upgrade(engine, NOW)

    check_schema(engine)
    ledger = sql_ledger(FrozenClock(NOW), engine)
    [execution] = ledger.records.executions(ExecutionFilter(limit=9))
    assert (execution.state, execution.key) == (State.SUCCEEDED, "cron-2026-3-2-11-59")
    assert execution.executed_at == datetime(2026, 3, 2, 11, 59, 0, 250_000, tzinfo=UTC)
    first, second = ledger.schedules.schedules()
    assert first.draft is not None
    assert (first.draft.status, first.draft.params) == (True, '{"controller": "RefreshUserToken"}')
    assert second.draft is not None
    assert second.draft.date_time == datetime(2026, 3, 2, 13, 30, tzinfo=UTC)
    [[created]] = run(
        empty_postgresql,
        "INSERT INTO Scheduler (schedule, status, report_id) VALUES ('* * * * *', 1, 1)",
        "SELECT created_at IS NOT NULL AND status = 1 FROM Scheduler WHERE report_id = 1",
    )
    assert created


def test_the_statements_of_the_operators_page_run(engine: Engine, empty_postgresql: URL) -> None:
    upgrade(engine)
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    statements = [each for block in blocks for each in block.split(";") if each.strip()]

    assert len(statements) >= 6
    for statement in statements:
        run(empty_postgresql, statement)


def test_the_role_of_the_operators_page_may_work_and_change_no_table(
    engine: Engine, empty_postgresql: URL
) -> None:
    upgrade(engine)
    page = PAGE.read_text(encoding="utf-8")
    grants = re.findall(r"^(?:GRANT|ALTER DEFAULT).* TO cronhare_worker;$", page, re.MULTILINE)
    assert len(grants) >= 4
    role = f"worker_{empty_postgresql.database}"
    run(empty_postgresql, f"CREATE ROLE {role} LOGIN PASSWORD 'w'")
    run(empty_postgresql, *(grant.replace("cronhare_worker", role) for grant in grants))
    url = empty_postgresql.set(username=role, password="w")
    as_worker = open_engine(url.render_as_string(hide_password=False))
    ledger = sql_ledger(FrozenClock(NOW), as_worker)

    ledger.plan_edited()
    ledger.failed()
    check_schema(as_worker)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner"):
        run(url, "DROP TABLE Scheduler")

    as_worker.dispose()
    run(empty_postgresql, f"DROP OWNED BY {role}", f"DROP ROLE {role}")
