"""A database with several hosts: one that is away, only reads or is silent keeps nobody."""

import logging
import socket
from collections.abc import Callable, Iterator

import attrs
import pytest
from sqlalchemy import Engine, text

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import check_schema, upgrade
from cronhare.adapters.sql.schedules import SqlScheduleStore
from cronhare.ports import LedgerUnavailable
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import NOON, draft, sql_ledger
from tests.services import mariadb, postgresql
from tests.services.finding import free_port

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
