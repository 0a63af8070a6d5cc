"""A PostgreSQL with several hosts: a standby and one that is away keep nobody."""

import logging
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import check_schema, upgrade
from cronhare.ports import LedgerUnavailable
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import NOON, draft, sql_ledger
from tests.services import postgresql
from tests.services.finding import free_port

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`


@pytest.fixture
def primary() -> Iterator[postgresql.Private]:
    with postgresql.private() as server:
        postgresql.run(server.url, "CREATE DATABASE cron")
        yield server


@pytest.fixture
def standby(primary: postgresql.Private) -> Iterator[postgresql.Private]:
    with postgresql.standby(primary) as server:
        yield server


def opened(*hosts: str) -> Engine:
    return open_engine(f"postgresql+psycopg://tester:tester@{','.join(hosts)}/cron")


def at(port: int) -> str:
    return f"127.0.0.1:{port}"


def ports_met(engine: Engine, times: int = 12) -> set[int]:
    """Connect again and again, and tell where that led."""
    met = set[int]()
    for _ in range(times):
        with engine.connect() as connection:
            met.add(int(connection.scalar(text("SELECT inet_server_port()")) or 0))
            connection.invalidate()
    engine.dispose()
    return met


def test_a_standby_and_a_host_that_is_away_are_passed_over_and_told(
    primary: postgresql.Private, standby: postgresql.Private, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        met = ports_met(opened(at(standby.port), at(primary.port), at(free_port())))

    assert met == {primary.port}
    assert f"Database host {at(standby.port)} is passed over" in caplog.text
    assert "session is read-only" in caplog.text


def test_calls_go_on_with_what_was_promoted(
    primary: postgresql.Private, standby: postgresql.Private
) -> None:
    engine = opened(at(primary.port), at(standby.port))
    upgrade(engine)
    ledger = sql_ledger(FrozenClock(NOON), engine)
    ledger.save(draft("before"))
    postgresql.run(primary.url, "SELECT pg_switch_wal()")
    behind = "SELECT pg_current_wal_lsn() = replay_lsn FROM pg_stat_replication"
    while postgresql.run(primary.url, behind) != [(True,)]:
        pass

    primary.kill()
    postgresql.run(standby.url, "SELECT pg_promote()")
    ledger.save(draft("after"))

    assert [one.name for one in ledger.schedules.schedules()] == ["after", "before"]
    engine.dispose()


def test_none_of_them_is_told_one_by_one() -> None:
    ports = free_port(), free_port()

    with pytest.raises(LedgerUnavailable, match="none of the hosts can be used") as caught:
        check_schema(opened(*map(at, ports)))

    assert all(at(port) in str(caught.value) for port in ports)
    assert "tester" not in str(caught.value)
