"""Sessions with a server whose administrator chose otherwise, and what may befall them."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pymysql
import pytest
from sqlalchemy import URL, Engine, ExceptionContext, event, text

from cronhare.adapters.sql import database
from cronhare.adapters.sql.dialects import mysql, mysql_sessions, open_engine
from cronhare.adapters.sql.dialects import servers as server_sessions
from cronhare.domain.execution import Execution, State
from cronhare.ports import LedgerUnavailable
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import LEASE, MINUTE, NOON, Ledger, draft, empty, sql_ledger
from tests.services.finding import wait_until
from tests.services.mariadb import connect, until_one_waits

pytestmark = pytest.mark.integration


Session: TypeAlias = "pymysql.Connection[Any]"


@pytest.fixture
def engine(migrated_mysql: URL) -> Iterator[Engine]:
    empty(migrated_mysql)
    engine = open_engine(migrated_mysql.render_as_string(hide_password=False))
    yield engine
    assert "Current Checked out connections: 0" in engine.pool.status()
    engine.dispose()


@pytest.fixture
def ledger(engine: Engine) -> Ledger:
    ledger = sql_ledger(FrozenClock(NOON), engine)
    ledger.plan_edited()
    return ledger


@pytest.fixture
def shell(migrated_mysql: URL) -> Iterator[Session]:
    """An operator's session, with the server's own settings."""
    with closing(connect(migrated_mysql)) as session:
        yield session


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for locks as long as a busy machine may need to see that we do."""
    by_us = mysql_sessions._SESSION
    monkeypatch.setattr(mysql_sessions, "_SESSION", (*by_us, "SET innodb_lock_wait_timeout = 300"))
    monkeypatch.setattr(server_sessions, "ANSWER_SECONDS", 300)


def sessions(shell: Session) -> list[int]:
    """The sessions of others in this database."""
    with shell.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM information_schema.PROCESSLIST "
            "WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        )
        return [id_ for (id_,) in cursor.fetchall()]


def kill(shell: Session) -> int:
    """Kill everybody else's session; gives how many there were."""
    killed = 0
    for victim in sessions(shell):
        with suppress(pymysql.MySQLError), shell.cursor() as cursor:  # it may have gone by itself
            cursor.execute(f"KILL {victim}")
            killed += 1
    return killed


@contextmanager
def before(engine: Engine, statement: str, act: Callable[[], object]) -> Iterator[None]:
    """Do something once, right before a statement that begins so is executed."""
    waiting = [act]

    def listen(_connection: object, _cursor: object, sql: str, *_: object) -> None:
        if waiting and sql.startswith(statement):
            waiting.pop()()

    event.listen(engine, "before_cursor_execute", listen)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", listen)
    assert not waiting


def test_a_session_depends_on_nothing_that_an_administrator_chose(engine: Engine) -> None:
    with engine.connect() as connection:
        told = connection.execute(
            text(
                "SELECT @@time_zone, @@sql_mode, @@wait_timeout, @@character_set_client, "
                "@@autocommit, "
                "TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW())"
            )
        ).one()
        isolation = connection.get_isolation_level()

    idle = server_sessions.IDLE_SECONDS
    assert told == ("+00:00", mysql_sessions.SQL_MODE, idle, "utf8mb4", 0, 0)
    assert isolation == "READ COMMITTED"


def test_what_a_vanished_host_held_is_free_again(ledger: Ledger, migrated_mysql: URL) -> None:
    ledger.add(schedule=None, date_time=ledger.now + MINUTE)
    ledger.clock.advance(MINUTE)
    vanished = open_engine(migrated_mysql.render_as_string(hide_password=False)).connect()
    vanished.exec_driver_sql("SELECT * FROM SchedulerPlan FOR UPDATE")

    passed_over = ledger.claim_due()
    vanished.exec_driver_sql("SET wait_timeout = 1")  # only now: the look may come late
    wait_until(lambda: bool(ledger.claim_due().claimed), seconds=60, what="a claim")
    vanished.invalidate()

    assert passed_over.looked == 0


def test_the_servers_clock_is_the_ledgers(ledger: Ledger) -> None:
    first, second = ledger.claims.now(), ledger.claims.now()

    assert first < second < first + MINUTE
    assert abs(second - datetime.now(UTC)) < MINUTE


def test_a_batch_that_is_larger_than_a_statement_may_be_is_claimed_in_several(
    ledger: Ledger,
) -> None:
    params = '"' + "x'\\\\" * 25_000 + '"'
    names = [f"big-{number:02}" for number in range(60)]
    ledger.save(*(draft(name, params=params) for name in names))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)

    batch = ledger.claim_due()

    assert len(params) * len(names) > mysql.LARGEST_DOCUMENT
    assert sorted(one.schedule_name for one in batch.claimed) == names
    assert {one.params for one in ledger.executions()} == {params}


# Lost connections


@pytest.mark.parametrize("statement", ["INSERT INTO `SchedulerExecution`", "INSERT INTO `Schedul"])
def test_a_session_that_is_killed_amid_a_claim_claims_again(
    ledger: Ledger, engine: Engine, shell: Session, statement: str
) -> None:
    ledger.add()
    ledger.clock.advance(MINUTE)

    with before(engine, statement, lambda: kill(shell)):
        batch = ledger.claim_due()

    assert len(batch.claimed) == 1
    assert [one.id for one in ledger.executions()] == [batch.claimed[0].id]


def test_a_commit_without_an_answer_is_unknown_and_can_be_repeated(
    ledger: Ledger, engine: Engine, shell: Session
) -> None:
    execution = ledger.claimed()

    @event.listens_for(engine, "commit", once=True)
    def _cut(_: object) -> None:
        kill(shell)

    with pytest.raises(LedgerUnavailable, match=r"starting attempts .*the connection was lost"):
        ledger.start(execution)
    answer = ledger.started(execution)

    assert (answer.state, answer.attempt) == (State.RUNNING, 1)
    assert len(ledger.records.attempts(execution.id)) == 1


def test_a_server_that_says_nothing_is_given_up_well_within_a_lease(
    monkeypatch: pytest.MonkeyPatch, migrated_mysql: URL, ledger: Ledger, shell: Session
) -> None:
    execution = ledger.claimed()
    monkeypatch.setattr(server_sessions, "ANSWER_SECONDS", 1)
    patient = (*mysql_sessions._SESSION, "SET innodb_lock_wait_timeout = 50")
    monkeypatch.setattr(mysql_sessions, "_SESSION", patient)
    monkeypatch.setattr("cronhare.adapters.sql.database.REPEAT_FOR", 0.0)
    engine = open_engine(migrated_mysql.render_as_string(hide_password=False))
    waiting = sql_ledger(ledger.clock, engine)
    with shell.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        cursor.execute("UPDATE SchedulerExecution SET missed = 7 WHERE id = %s", (execution.id,))

    began = time.monotonic()
    with pytest.raises(LedgerUnavailable, match="did not answer in time"):
        waiting.records.cancel(execution.id, now=ledger.now)
    took = time.monotonic() - began
    shell.rollback()
    engine.dispose()

    assert took < LEASE.total_seconds()  # the lock would be waited for 50 s
    # The server's end of that session is granted the lock for a moment before it sees us gone.
    wait_until(
        lambda: isinstance(ledger.start(execution), Execution),
        seconds=30,
        every=0.1,
        what="a start",
    )


def test_the_longest_that_a_call_may_take_is_well_below_a_lease() -> None:
    longest = database.REPEAT_FOR + server_sessions.CONNECT_SECONDS + server_sessions.ANSWER_SECONDS

    assert timedelta(seconds=longest) <= LEASE * 2 / 3


# Locks


def test_an_edit_that_somebody_leaves_open_stops_nobody(ledger: Ledger, shell: Session) -> None:
    ledger.add("edited")
    ledger.add("other")
    ledger.clock.advance(MINUTE)
    with shell.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        cursor.execute("UPDATE Scheduler SET params = '{\"n\": 2}' WHERE name = 'edited'")

    before_it_counts = ledger.claim_due()
    started = [ledger.started(execution) for execution in before_it_counts.claimed]
    shell.commit()
    ledger.clock.advance(MINUTE)

    assert sorted(one.schedule_name for one in started) == ["edited", "other"]
    assert {one.params for one in started} == {"{}"}
    assert ledger.plan_edited().looked == 1


@pytest.mark.usefixtures("patient")
def test_a_deadlock_is_repeated_unseen(
    ledger: Ledger, engine: Engine, shell: Session, migrated_mysql: URL
) -> None:
    first, second = ledger.failed("first"), ledger.failed("second")
    numbers: list[int] = []

    @event.listens_for(engine, "handle_error")
    def _note(context: ExceptionContext) -> None:
        numbers.append(mysql_sessions.number_of(context.original_exception))

    with shell.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("START TRANSACTION")
        touch = "UPDATE SchedulerExecution SET missed = missed + 1 WHERE id = %s"
        for _ in range(20):  # the server takes that back which has written less
            cursor.execute(touch, (second.execution_id,))
        replaying = pool.submit(ledger.records.replay, [first.id, second.id], now=ledger.now)
        until_one_waits(migrated_mysql)  # it holds the first by now, and waits for the second
        cursor.execute(touch, (first.execution_id,))
        shell.rollback()

    assert numbers == [mysql_sessions.DEADLOCK]
    assert [(one.state, one.attempt) for one in replaying.result()] == [(State.CLAIMED, 2)] * 2
