"""A database with several hosts, of which some are of no use; and a Galera cluster."""

import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import attrs
import pytest
from sqlalchemy import Engine, ExceptionContext, event, text

from cronhare.adapters.sql.database import Database
from cronhare.adapters.sql.dialect import TransactionRolledBack
from cronhare.adapters.sql.dialects import mysql_sessions, open_engine
from cronhare.adapters.sql.migrations.upgrade import check_schema, upgrade
from cronhare.adapters.sql.schedules import SqlScheduleStore
from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.retry import Complete
from cronhare.ports import LedgerUnavailable
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import MINUTE, NOON, SUCCESS, Ledger, at_once, draft, sql_ledger
from tests.services import galera, mariadb, postgresql
from tests.services.finding import free_port, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`


@attrs.frozen(kw_only=True)
class Pair:
    """Two servers with a ledger: *one* takes writes, the *other* only reads until it is promoted.

    The other *has_caught_up* with what was written, where it is a replica.
    """

    scheme: str
    one: mariadb.Private | postgresql.Private
    other: mariadb.Private | postgresql.Private
    asks_port: str
    says_why: str
    promote: Callable[[], object]
    has_caught_up: Callable[[], bool] = lambda: True

    def opened(self, *ports: int, user: str = "tester") -> Engine:
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return open_engine(f"{self.scheme}://{user}:{user}@{hosts}/cron")

    def ports_met(self, engine: Engine, times: int = 20) -> set[int]:
        """Connect again and again, and tell where that led."""
        met = set[int]()
        for _ in range(times):
            with engine.connect() as connection:
                met.add(int(connection.scalar(text(self.asks_port)) or 0))
                connection.invalidate()
        engine.dispose()
        return met


@pytest.fixture(scope="module")
def two_mariadbs(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[mariadb.Private, mariadb.Private]]:
    folders = [tmp_path_factory.mktemp(name) / "m" for name in ("one", "other")]
    with mariadb.private(folders[0]) as one, mariadb.private(folders[1]) as other:
        yield one, other


def only_reads(server: mariadb.Private, switch: str) -> None:
    mariadb.run(server.url, f"SET GLOBAL read_only = {switch}")


@pytest.fixture
def mariadbs(two_mariadbs: tuple[mariadb.Private, mariadb.Private]) -> Iterator[Pair]:
    one, other = two_mariadbs
    pair = Pair(
        scheme="mysql+pymysql",
        one=one,
        other=other,
        asks_port="SELECT @@port",
        says_why="1290 it only reads (read_only is ON)",
        promote=lambda: only_reads(other, "OFF"),
    )
    for server in two_mariadbs:
        mariadb.run(server.url, "CREATE DATABASE cron")
        upgrade(pair.opened(server.port), NOON)
    only_reads(other, "ON")
    yield pair
    if not one.accepts():
        one.start()
    for server in two_mariadbs:
        only_reads(server, "OFF")
        mariadb.run(server.url, "DROP DATABASE cron")


@pytest.fixture
def postgresqls() -> Iterator[Pair]:
    with postgresql.private() as one:
        postgresql.run(one.url, "CREATE DATABASE cron")
        with postgresql.standby(one) as other:
            behind = "SELECT pg_current_wal_lsn() = replay_lsn FROM pg_stat_replication"
            pair = Pair(
                scheme="postgresql+psycopg",
                one=one,
                other=other,
                asks_port="SELECT inet_server_port()",
                says_why="session is read-only",
                promote=lambda: postgresql.run(other.url, "SELECT pg_promote()"),
                has_caught_up=lambda: postgresql.run(one.url, behind) == [(True,)],
            )
            upgrade(pair.opened(one.port), NOON)
            yield pair


@pytest.fixture(params=["mariadbs", "postgresqls"])
def pair(request: pytest.FixtureRequest) -> Pair:
    found: Pair = request.getfixturevalue(request.param)
    return found


def test_hosts_that_are_away_or_only_read_are_passed_over_and_told_once(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    away = free_port()

    met = pair.ports_met(pair.opened(away, pair.other.port, pair.one.port))

    told = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert len([each for each in told if f"127.0.0.1:{away} is passed over: " in each]) == 1
    [of_other] = [each for each in told if f"127.0.0.1:{pair.other.port} is passed over" in each]
    assert met == {pair.one.port}
    assert pair.says_why in of_other
    assert "tester" not in caplog.text


def test_if_no_host_will_do_each_is_told_with_its_reason(pair: Pair) -> None:
    away = free_port()

    with pytest.raises(LedgerUnavailable, match="none of the hosts can be used: ") as caught:
        check_schema(pair.opened(away, pair.other.port))

    said = str(caught.value)
    assert f"127.0.0.1:{away}: " in said
    assert f"127.0.0.1:{pair.other.port}: " in said
    assert pair.says_why in said
    assert "tester" not in said


def test_calls_go_on_with_what_was_promoted_when_their_host_dies(pair: Pair) -> None:
    engine = pair.opened(pair.one.port, pair.other.port)
    ledger = sql_ledger(FrozenClock(NOON), engine)
    ledger.save(draft("before"))
    while not pair.has_caught_up():
        pass

    pair.one.kill()
    pair.promote()
    ledger.save(draft("after"))

    assert "after" in [one.name for one in ledger.schedules.schedules()]
    engine.dispose()


def test_a_host_that_is_silent_is_passed_over_in_seconds(mariadbs: Pair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, says nothing
        engine = mariadbs.opened(silent.getsockname()[1], mariadbs.one.port)
        assert mariadbs.ports_met(engine, times=4) == {mariadbs.one.port}


def test_a_write_goes_to_the_next_host_when_its_own_begins_to_only_read(
    mariadbs: Pair,
    two_mariadbs: tuple[mariadb.Private, mariadb.Private],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    one, other = two_mariadbs
    for server in (one, other):
        mariadb.run(
            server.url,
            "CREATE USER IF NOT EXISTS plain@'127.0.0.1' IDENTIFIED BY 'plain'",
            "GRANT ALL ON cron.* TO plain@'127.0.0.1'",
        )
    engine = mariadbs.opened(one.port, other.port, user="plain")
    assert mariadbs.ports_met(engine) == {one.port}
    with engine.connect():  # it is kept
        pass

    mariadbs.promote()
    only_reads(one, "ON")
    SqlScheduleStore(engine, FrozenClock(NOON)).save([draft()], source=None, now=NOON)
    engine.dispose()

    count = "SELECT count(*) FROM cron.Scheduler WHERE system_id IS NULL"
    assert (mariadb.run(one.url, count), mariadb.run(other.url, count)) == ([(0,)], [(1,)])
    assert f"{other.port} is used again" in caplog.text


# Nodes of a Galera cluster that write the same at once


SCHEDULES, ROUNDS = 40, 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[galera.Cluster]:
    with galera.cluster(tmp_path_factory.mktemp("galera")) as cluster:
        mariadb.run(cluster.url, "CREATE DATABASE cron")
        yield cluster


@attrs.define
class Station:
    """What works on one node alone, with the errors that it met: the number, and the statement."""

    node: galera.Node
    engine: Engine
    errors: list[tuple[int, str | None]] = attrs.field(factory=list)

    def note(self, met: ExceptionContext) -> None:
        """Remember an error."""
        self.errors.append((mysql_sessions.number_of(met.original_exception), met.statement))


@pytest.fixture
def stations(cluster: galera.Cluster) -> Iterator[list[Station]]:
    wait_until(lambda: all(node.is_synced() for node in cluster.nodes), seconds=60, what="all")
    stations = []
    for node in cluster.nodes:
        url = node.url.set(database="cron").render_as_string(hide_password=False)
        station = Station(node, open_engine(url))
        event.listen(station.engine, "handle_error", station.note)
        stations.append(station)
    upgrade(stations[0].engine)
    yield stations
    for station in stations:
        station.engine.dispose()


@pytest.fixture
def counter(stations: list[Station]) -> None:
    mariadb.run(
        stations[0].node.url.set(database="cron"),
        "CREATE OR REPLACE TABLE counter (id INT PRIMARY KEY, n INT NOT NULL)",
        "INSERT INTO counter VALUES (1, 0)",
    )


ADD = text("UPDATE counter SET n = n + 1 WHERE id = 1")
READ = text("SELECT n FROM counter WHERE id = 1")


def count(station: Station, clock: FrozenClock) -> int:
    with Database(station.engine, clock).read("reading") as connection:
        return int(connection.scalar(READ) or 0)


def run_all(ledgers: list[Ledger], waiting: list[Execution], number: int) -> None:
    """Run on one node whatever nobody else has begun, one after the other."""
    ledger, node = ledgers[number], f"n{number}"
    for execution in waiting:
        if isinstance(begun := ledger.start(execution, node=node), Execution):
            assert ledger.finish(begun, Complete(), SUCCESS, node=node) is State.SUCCEEDED


def test_schedulers_and_workers_on_different_nodes_do_everything_once(
    stations: list[Station], clock: FrozenClock
) -> None:
    ledgers = [sql_ledger(clock, station.engine) for station in stations]
    first = ledgers[0]
    first.save(*(draft(f"job-{number}") for number in range(SCHEDULES)))
    first.plan_edited()
    for _ in range(ROUNDS):
        clock.advance(MINUTE)
        claimed = at_once(len(ledgers), lambda number: ledgers[number].claim_due(node=f"n{number}"))
        ours = Counter(row.key + row.schedule_name for batch in claimed for row in batch.claimed)
        assert set(ours.values()) == {1}
        assert len(ours) == SCHEDULES
        waiting = [row for batch in claimed for row in batch.claimed]
        at_once(len(ledgers), partial(run_all, ledgers, waiting))

    rows = first.executions()
    assert Counter(row.state for row in rows) == {State.SUCCEEDED: ROUNDS * SCHEDULES}
    assert {len(first.records.attempts(row.id)) for row in rows} == {1}


@pytest.mark.usefixtures("counter")
def test_what_a_node_without_a_majority_refuses_at_the_commit_was_not_done(
    stations: list[Station], clock: FrozenClock
) -> None:
    here, *others = stations

    def add_amid_a_loss() -> None:
        with Database(here.engine, clock).write("adding") as connection:
            connection.execute(ADD)
            for other in others:
                other.node.kill()
            wait_until(lambda: not here.node.is_synced(), seconds=30, what="the loss")

    try:
        with pytest.raises(TransactionRolledBack):
            add_amid_a_loss()
        [(number, statement)] = here.errors
    finally:
        mariadb.run(here.node.url, "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'")
        for other in others:
            other.node.start()

    assert number in {mysql_sessions.NOT_READY, mysql_sessions.DEADLOCK}
    assert statement is None
    assert {count(station, clock) for station in stations} == {0}
