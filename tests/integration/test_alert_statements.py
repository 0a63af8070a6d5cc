"""What alerts and pings ask once a minute finds its rows by an index, however long the history."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, text

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.events.alerts import SqlAlertStore
from cronhare.adapters.sql.events.outbox import SqlEventStore
from cronhare.adapters.sql.migrations.upgrade import upgrade
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import NOON

MANY = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO "
    "SchedulerExecution (scheduler_id, execution_key, executed_at, container_id, due_at, state, "
    "started_at, finished_at) SELECT 1, 'cron-' || i, t, 'ant', t, 'succeeded', t, t FROM n, "
    "(SELECT '2020-01-01 00:00:00.000000' AS t)"
)
Ask = Callable[[SqlAlertStore, SqlEventStore], object]


@pytest.mark.parametrize(
    "ask",
    [
        lambda alerts, _: alerts.system_signs(now=NOON, served=["cron_scheduler"]),
        lambda alerts, _: alerts.schedule_signs([1], usual=[1], now=NOON),
        lambda _, events: events.begun_or_ended([1], since=NOON, after=0, limit=9),
    ],
)
def test_no_statement_goes_through_all_runs(ask: Ask, tmp_path: Path) -> None:
    engine, clock = open_engine(f"sqlite:///{tmp_path / 'ledger'}"), FrozenClock(NOON)
    upgrade(engine, NOON - timedelta(days=1))
    with engine.begin() as connection:
        connection.execute(text(MANY))
        connection.execute(text("ANALYZE"))
    asked = list[tuple[str, object]]()

    @event.listens_for(engine, "before_cursor_execute")
    def note(_c: Connection, _u: object, said: str, given: object, *_: object) -> None:
        asked.append((said, given))

    ask(SqlAlertStore(engine, clock), SqlEventStore(engine, clock))
    event.remove(engine, "before_cursor_execute", note)

    with engine.connect() as connection:
        plans = [
            str(step[3])
            for said, given in asked
            if "SELECT" in said
            for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {said}", given)  # type: ignore[arg-type]
        ]
    engine.dispose()
    assert plans
    assert not [each for each in plans if "SCAN SchedulerExecution" in each]
    assert not [each for each in plans if "PRIMARY KEY (rowid>?)" in each]
