"""Sessions with servers whose administrators chose otherwise, and what may befall them."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import attrs
import pymysql
import pytest
from msgspec.structs import asdict
from sqlalchemy import URL, Engine, event, text

from cronhare.adapters.sql import database
from cronhare.adapters.sql.dialects import mysql, mysql_sessions, open_engine
from cronhare.adapters.sql.dialects import servers as server_sessions
from cronhare.adapters.sql.migrations.upgrade import check_schema
from cronhare.adapters.sql.records.inspection import SqlInspection
from cronhare.application.doctor.finding import Seen
from cronhare.application.doctor.servers import LEDGER
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import EVERY_FAILURE
from cronhare.ports import LedgerUnavailable
from cronhare.ports.inspection import LedgerFacts, Severity
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import (
    FOR_GOOD,
    IN_30_S,
    LEASE,
    MINUTE,
    NOON,
    SECOND,
    Ledger,
    draft,
    empty,
    sql_ledger,
)
from tests.services import mariadb, postgresql

pytestmark = pytest.mark.integration

Session: TypeAlias = "pymysql.Connection[Any]"

#: For tests of one kind of server.
of_mysql = pytest.mark.parametrize("url", ["mysql"], indirect=True)
of_postgresql = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


@pytest.fixture(params=["mysql", "postgresql"])
def url(request: pytest.FixtureRequest) -> URL:
    found: URL = request.getfixturevalue(f"migrated_{request.param}")
    empty(found)
    return found


def opened(url: URL) -> Engine:
    return open_engine(url.render_as_string(hide_password=False))


@pytest.fixture
def engine(url: URL) -> Iterator[Engine]:
    engine = opened(url)
    yield engine
    assert "Current Checked out connections: 0" in engine.pool.status()
    engine.dispose()


@pytest.fixture
def ledger(engine: Engine) -> Ledger:
    ledger = sql_ledger(FrozenClock(NOON), engine)
    ledger.plan_edited()
    return ledger


@pytest.fixture
def shell(url: URL) -> Iterator[Session]:
    """An operator's session, with the server's own settings."""
    with closing(mariadb.connect(url)) as session:
        yield session


def kill_sessions(url: URL) -> None:
    """Kill everybody else's session in this database."""
    if url.get_backend_name() == "postgresql":
        postgresql.run(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        return
    others = "SELECT id FROM information_schema.PROCESSLIST WHERE db = DATABASE()"
    for (victim,) in mariadb.run(url, f"{others} AND id <> CONNECTION_ID()"):
        with suppress(pymysql.MySQLError):  # it may have gone by itself
            mariadb.run(url, f"KILL {victim}")


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


# On both


def test_a_session_that_is_killed_amid_a_claim_claims_again(
    ledger: Ledger, engine: Engine, url: URL
) -> None:
    ledger.add()
    ledger.clock.advance(MINUTE)

    with before(engine, "INSERT INTO", lambda: kill_sessions(url)):
        batch = ledger.claim_due()

    assert len(batch.claimed) == 1
    assert [one.id for one in ledger.executions()] == [batch.claimed[0].id]


def test_a_commit_without_an_answer_is_unknown_and_can_be_repeated(
    ledger: Ledger, engine: Engine, url: URL
) -> None:
    execution = ledger.claimed()

    @event.listens_for(engine, "commit", once=True)
    def _cut(_: object) -> None:
        kill_sessions(url)

    with pytest.raises(LedgerUnavailable, match=r"starting attempts .*connection") as caught:
        ledger.start(execution)
    answer = ledger.started(execution)

    assert not caught.value.changed_nothing
    assert (answer.state, answer.attempt) == (State.RUNNING, 1)
    assert len(ledger.records.attempts(execution.id)) == 1


def test_the_longest_that_a_call_may_take_is_well_below_a_lease() -> None:
    longest = database.REPEAT_FOR + server_sessions.CONNECT_SECONDS + server_sessions.ANSWER_SECONDS

    assert timedelta(seconds=longest) <= LEASE * 2 / 3


# MySQL and MariaDB


@of_mysql
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


@of_mysql
def test_the_servers_clock_is_the_ledgers(ledger: Ledger) -> None:
    first, second = ledger.claims.now(), ledger.claims.now()

    assert first < second < first + MINUTE
    assert abs(second - datetime.now(UTC)) < MINUTE


@of_mysql
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


@of_mysql
def test_a_server_that_says_nothing_is_given_up_well_within_a_lease(
    monkeypatch: pytest.MonkeyPatch, url: URL, ledger: Ledger, shell: Session
) -> None:
    execution = ledger.claimed()
    monkeypatch.setattr(server_sessions, "ANSWER_SECONDS", 1)
    patient = (*mysql_sessions._SESSION, "SET innodb_lock_wait_timeout = 50")
    monkeypatch.setattr(mysql_sessions, "_SESSION", patient)
    monkeypatch.setattr("cronhare.adapters.sql.database.REPEAT_FOR", 0.0)
    engine = opened(url)
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


@of_mysql
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


# PostgreSQL


@of_postgresql
def test_a_session_has_its_own_zone_isolation_and_bounds(engine: Engine) -> None:
    names = (
        *("TimeZone", "DateStyle", "transaction_isolation", "client_encoding"),
        *("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"),
    )
    with engine.connect() as connection:
        told = [connection.scalar(text(f"SHOW {name}")) for name in names]

    assert told == ["UTC", "ISO, YMD", "read committed", "UTF8", "1s", "10s", "45s"]


def test_a_server_that_stands_still_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_sessions, "ANSWER_SECONDS", 1)
    monkeypatch.setattr(server_sessions, "CONNECT_SECONDS", 2)
    monkeypatch.setattr("cronhare.adapters.sql.database.REPEAT_FOR", 0.0)
    with postgresql.private() as own:
        engine = opened(own.url)
        with engine.connect() as connection:
            backend = connection.scalar(text("SELECT pg_backend_pid()")) or 0
        os.kill(backend, signal.SIGSTOP)
        try:
            with pytest.raises(LedgerUnavailable, match="did not answer within 1 s"):
                check_schema(engine)
        finally:
            os.kill(backend, signal.SIGCONT)
        engine.dispose()


@of_postgresql
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


# A COMMIT that is answered with an error. A node of a cluster answers 1213 to what it could not
# have certified, and also when it loses the others over it: then they may have it. So what is
# repeated must do what was asked for, once.


@attrs.define
class Commits:
    """Answers every other COMMIT with an error; *kept* says whether it was carried out before."""

    number: int
    kept: bool
    asked: int = 0

    def __call__(self, session: "pymysql.Connection[Any]") -> None:
        """Commit, or do not."""
        self.asked += 1
        is_refused = self.asked % 2 == 1
        if is_refused and not self.kept:
            session.rollback()
        else:
            session.commit()
        if is_refused:
            raise pymysql.err.OperationalError(self.number, "an error at COMMIT")


def live(ledger: Ledger) -> object:
    """Take executions through all that is written of them, and tell what there is at the end."""
    ledger.add()
    ledger.clock.advance(MINUTE)
    ledger.claim_due()
    [execution] = ledger.executions()
    ledger.claims.mark_published([execution], now=ledger.now)

    started = ledger.started(ledger.seen(execution))
    ledger.attempts.renew([started.id], now=ledger.now, node="ant", lease=LEASE)
    assert ledger.finish(started, IN_30_S) is State.RETRYING
    ledger.clock.advance(30 * SECOND)
    assert ledger.finish(ledger.started(ledger.seen(execution)), FOR_GOOD) is State.FAILED

    ledger.records.replay([row.id for row in ledger.records.archive()], now=ledger.now)
    ledger.claims.mark_published([ledger.seen(execution)], now=ledger.now)
    assert ledger.finish(ledger.started(ledger.seen(execution)), FOR_GOOD) is State.FAILED
    ledger.records.discard(
        [row.id for row in ledger.records.archive()], note="enough", now=ledger.now
    )
    by_hand = {
        key: ledger.run_now(execution.scheduler_id, key) for key in ("first", "second", "third")
    }
    ledger.records.cancel(by_hand["first"].id, now=ledger.now)
    ledger.claims.hand_over([by_hand["second"]], now=ledger.now)
    lost = ledger.started(by_hand["third"])
    ledger.clock.advance(2 * LEASE)
    assert ledger.lapsed() == [lost.id]
    ledger.disable("report")
    return told(ledger)


def told(ledger: Ledger) -> object:
    """Tell all but what counts writes: versions, and ids, which nothing is given a second time."""
    executions = [
        (
            {**asdict(row), "id": 0, "scheduler_id": 0, "version": 0},
            [(one.attempt, one.ending) for one in ledger.records.attempts(row.id)],
        )
        for row in ledger.executions()
    ]
    archive = [row.resolution for row in ledger.records.archive(EVERY_FAILURE)]
    [schedule] = ledger.schedules.schedules(["report"])
    return executions, archive, (schedule.draft, schedule.problem, schedule.planned)


@of_mysql
@pytest.mark.parametrize(
    ("number", "kept"), [(1213, False), (1213, True), (1047, False), (3101, False)]
)
def test_what_was_asked_for_is_done_once(
    number: int,
    *,
    kept: bool,
    engine: Engine,
    url: URL,
    clock: FrozenClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    undisturbed = live(sql_ledger(clock, engine))
    empty(url)
    commits = Commits(number, kept)
    monkeypatch.setattr(engine.dialect, "do_commit", commits)

    disturbed = live(sql_ledger(FrozenClock(NOON), engine))

    assert disturbed == undisturbed
    assert commits.asked > 20
