"""Sessions with PostgreSQL: what they depend on, what ends them, and what travels through them."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, Engine, event, text

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.dialects import servers as server_sessions
from cronhare.adapters.sql.migrations.upgrade import check_schema
from cronhare.adapters.sql.records.inspection import SqlInspection
from cronhare.adapters.system.clock import SystemClock
from cronhare.application.doctor.finding import Seen
from cronhare.application.doctor.servers import LEDGER
from cronhare.ports import LedgerUnavailable
from cronhare.ports.inspection import Cause, LedgerFacts, Severity, Unreachable
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import MINUTE, NOON, Ledger, draft, empty, sql_ledger
from tests.services import postgresql

pytestmark = pytest.mark.integration


@pytest.fixture
def engine(migrated_postgresql: URL) -> Iterator[Engine]:
    empty(migrated_postgresql)
    engine = open_engine(migrated_postgresql.render_as_string(hide_password=False))
    yield engine
    assert "Current Checked out connections: 0" in engine.pool.status()
    engine.dispose()


@pytest.fixture
def ledger(engine: Engine) -> Ledger:
    ledger = sql_ledger(FrozenClock(NOON), engine)
    ledger.plan_edited()
    return ledger


@pytest.fixture
def operator(migrated_postgresql: URL) -> Iterator["psycopg.Connection[Any]"]:
    with closing(postgresql.connect(migrated_postgresql)) as session:
        yield session


def end_all(operator: "psycopg.Connection[Any]") -> int:
    """End every session of this database but the operator's; gives how many."""
    ended = operator.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return len(ended.fetchall())


def test_a_session_depends_on_nothing_that_an_administrator_or_a_home_chose(
    migrated_postgresql: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=7")
    monkeypatch.setenv("PGSSLMODE", "require")
    monkeypatch.setenv("PGTZ", "Asia/Kolkata")
    engine = open_engine(migrated_postgresql.render_as_string(hide_password=False))
    names = (
        *("TimeZone", "DateStyle", "transaction_isolation", "client_encoding"),
        *("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"),
    )
    with engine.connect() as connection:
        told = [connection.scalar(text(f"SHOW {name}")) for name in names]
    engine.dispose()

    assert told == ["UTC", "ISO, YMD", "read committed", "UTF8", "1s", "10s", "45s"]


@pytest.mark.parametrize("moment", ["infinity", "-infinity", "0044-03-15 12:00 BC", "20000-01-01"])
def test_a_moment_that_python_has_not_is_told_of_its_row(
    ledger: Ledger, operator: "psycopg.Connection[Any]", moment: str
) -> None:
    ledger.save(draft("broken"), draft("innocent"))
    operator.execute(f"UPDATE Scheduler SET starts_at = '{moment}' WHERE name = 'broken'")

    ledger.plan_edited()
    ledger.clock.advance(MINUTE)

    assert [one.schedule_name for one in ledger.claim_due().claimed] == ["innocent"]
    problems = {row.name: row.problem for row in ledger.schedules.schedules()}
    assert "is not a time" in str(problems["broken"])


# Loss


def test_a_session_that_the_server_ended_is_replaced_without_a_word(
    ledger: Ledger, operator: "psycopg.Connection[Any]"
) -> None:
    ledger.add(schedule=None, date_time=ledger.now + MINUTE)
    ledger.clock.advance(MINUTE)

    assert end_all(operator) > 0

    assert len(ledger.claim_due().claimed) == 1


def test_of_a_commit_without_an_answer_the_caller_is_told(
    ledger: Ledger, engine: Engine, operator: "psycopg.Connection[Any]"
) -> None:
    armed = [True]

    def end(_connection: object) -> None:
        if armed and armed.pop():
            end_all(operator)

    event.listen(engine, "commit", end)

    with pytest.raises(LedgerUnavailable, match="saving schedules") as caught:
        ledger.save(draft())

    assert not caught.value.changed_nothing


def test_a_server_that_stands_still_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_sessions, "ANSWER_SECONDS", 1)
    monkeypatch.setattr(server_sessions, "CONNECT_SECONDS", 2)
    monkeypatch.setattr("cronhare.adapters.sql.database.REPEAT_FOR", 0.0)
    with postgresql.private() as own:
        engine = open_engine(own.url.render_as_string(hide_password=False))
        with engine.connect() as connection:
            backend = connection.scalar(text("SELECT pg_backend_pid()")) or 0
        os.kill(backend, signal.SIGSTOP)
        try:
            with pytest.raises(LedgerUnavailable, match="did not answer within 1 s"):
                check_schema(engine)
        finally:
            os.kill(backend, signal.SIGCONT)
        engine.dispose()


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"password": "c4nary"}, Cause.LOGIN),
        ({"username": "c4nary"}, Cause.LOGIN),
        ({"database": "nowhere"}, Cause.PLACE),
        ({"port": 1}, Cause.ABSENT),
    ],
)
def test_why_it_cannot_be_used_is_told_without_user_and_password(
    migrated_postgresql: URL, changes: dict[str, Any], cause: Cause
) -> None:
    url = migrated_postgresql.set(**changes)
    engine = open_engine(url.render_as_string(hide_password=False))

    found = SqlInspection(lambda: engine, SystemClock()).inspect()

    assert isinstance(found, Unreachable)
    assert found.cause is cause
    assert "c4nary" not in found.said
    assert "tester" not in found.said


# What doctor finds


def test_doctor_finds_a_database_as_it_must_be(engine: Engine, ledger: Ledger) -> None:
    ledger.add()

    facts = SqlInspection(lambda: engine, ledger.clock).inspect()

    assert isinstance(facts, LedgerFacts)
    findings = [*LEDGER.judge(Seen(ledger=facts))]
    assert facts.database.product == "PostgreSQL"
    assert [one.what for one in findings if one.severity is Severity.ERROR] == [
        "fsync is off: a power loss may damage the whole database"  # as the tests start it
    ]
    assert facts.database.link is not None
    assert facts.database.link.local
