"""A database with several hosts: one that is away, only reads or is silent keeps nobody."""

import logging
import socket
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text

from cronhare.adapters.sql.claims.store import SqlClaimStore
from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import check_schema, upgrade
from cronhare.adapters.sql.schedules import SqlScheduleStore
from cronhare.ports import LedgerUnavailable
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import NOON, draft
from tests.services import mariadb
from tests.services.finding import free_port

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mariadb.Private]:
    with mariadb.private(tmp_path_factory.mktemp("one") / "m") as server:
        yield server


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mariadb.Private]:
    with mariadb.private(tmp_path_factory.mktemp("other") / "m") as server:
        yield server


@pytest.fixture
def databases(one: mariadb.Private, other: mariadb.Private) -> Iterator[None]:
    for server in (one, other):
        mariadb.run(server.url, "SET GLOBAL read_only = OFF", "CREATE OR REPLACE DATABASE cron")
    yield
    for server in (one, other):
        mariadb.run(server.url, "SET GLOBAL read_only = OFF", "DROP DATABASE IF EXISTS cron")


def opened(*ports: int) -> Engine:
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return open_engine(f"mysql+pymysql://tester:tester@{hosts}/cron")


def ports_met(engine: Engine, times: int = 12) -> set[int]:
    """Connect again and again, and tell where that led."""
    met = set[int]()
    for _ in range(times):
        with engine.connect() as connection:
            met.add(int(connection.scalar(text("SELECT @@port")) or 0))
            connection.invalidate()
    engine.dispose()
    return met


def promote(server: mariadb.Private, *, instead_of: mariadb.Private) -> None:
    """Have one of two take writes, and the other read."""
    mariadb.run(instead_of.url, "SET GLOBAL read_only = ON")
    mariadb.run(server.url, "SET GLOBAL read_only = OFF")


@pytest.mark.usefixtures("databases")
def test_a_host_that_is_away_is_passed_over_and_told_once(
    one: mariadb.Private, caplog: pytest.LogCaptureFixture
) -> None:
    away = free_port()

    assert ports_met(opened(away, one.port), times=20) == {one.port}

    told = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert len(told) == 1
    assert told[0].startswith(f"Database host 127.0.0.1:{away} is passed over: 2003 Can't connect")
    assert "tester" not in caplog.text


@pytest.mark.usefixtures("databases")
def test_a_host_that_only_reads_is_passed_over_and_used_again_later(
    one: mariadb.Private, other: mariadb.Private, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    engine = opened(one.port, other.port)
    promote(one, instead_of=other)

    assert ports_met(engine, times=20) == {one.port}
    promote(other, instead_of=one)
    assert ports_met(engine, times=20) == {other.port}

    assert f"{other.port} is passed over: 1290 it only reads (read_only is ON)" in caplog.text
    assert f"{other.port} is used again" in caplog.text


@pytest.mark.usefixtures("databases")
def test_a_host_that_is_silent_is_passed_over_in_seconds(one: mariadb.Private) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, says nothing
        assert ports_met(opened(silent.getsockname()[1], one.port), times=4) == {one.port}


@pytest.mark.usefixtures("databases")
def test_if_no_host_will_do_each_is_told_with_its_reason(other: mariadb.Private) -> None:
    mariadb.run(other.url, "SET GLOBAL read_only = ON")
    away = free_port()

    with pytest.raises(LedgerUnavailable) as caught:
        check_schema(opened(away, other.port))

    said = str(caught.value)
    assert "none of the hosts can be used: " in said
    assert f"127.0.0.1:{other.port}: 1290 it only reads (read_only is ON)" in said
    assert f"127.0.0.1:{away}: 2003 Can't connect" in said
    assert "tester" not in said


@pytest.mark.usefixtures("databases")
def test_a_call_goes_on_with_the_next_host_when_its_own_dies(
    one: mariadb.Private, other: mariadb.Private
) -> None:
    for server in (one, other):
        upgrade(opened(server.port), NOON)
    promote(one, instead_of=other)
    engine = opened(one.port, other.port)
    with engine.connect():
        pass

    one.kill()
    try:
        mariadb.run(other.url, "SET GLOBAL read_only = OFF")
        SqlClaimStore(engine, FrozenClock(NOON)).next_due()
    finally:
        one.start()
        engine.dispose()


@pytest.mark.usefixtures("databases")
def test_a_write_goes_to_the_next_host_when_its_own_begins_to_only_read(
    one: mariadb.Private, other: mariadb.Private
) -> None:
    for server in (one, other):
        mariadb.run(
            server.url,
            "CREATE USER IF NOT EXISTS plain@'127.0.0.1' IDENTIFIED BY 'plain'",
            "GRANT ALL ON cron.* TO plain@'127.0.0.1'",
        )
        upgrade(opened(server.port), NOON)
    promote(one, instead_of=other)
    hosts = f"127.0.0.1:{one.port},127.0.0.1:{other.port}"
    engine = open_engine(f"mysql+pymysql://plain:plain@{hosts}/cron")
    with engine.connect():
        pass

    promote(other, instead_of=one)
    SqlScheduleStore(engine, FrozenClock(NOON)).save([draft()], source=None, now=NOON)
    engine.dispose()

    count = "SELECT count(*) FROM cron.Scheduler WHERE system_id IS NULL"
    assert (mariadb.run(one.url, count), mariadb.run(other.url, count)) == ([(0,)], [(1,)])
