"""What goes wrong with a file, in sentences that say what to do."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from cronhare.adapters.sql.dialects import open_engine, sqlite
from cronhare.adapters.sql.migrations.upgrade import check_schema, upgrade
from cronhare.domain.execution import State
from cronhare.ports import LedgerOutdated, LedgerUnavailable
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import MINUTE, NOON, draft, sql_ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{path}")
    yield engine
    engine.dispose()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for other processes as long as a test may."""
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_what_is_made_is_its_owners_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        engine = open_engine(f"sqlite:///{tmp_path}/made/ledger.db")
        upgrade(engine)
        modes = {path.name: mode(path) for path in (tmp_path / "made").iterdir()}
    finally:
        os.umask(before)
    engine.dispose()

    assert modes == dict.fromkeys(("ledger.db", "ledger.db-wal", "ledger.db-shm"), "0600")
    assert mode(tmp_path / "made") == "0700"


def test_whoever_only_reads_makes_no_file(engine: Engine, path: Path) -> None:
    with pytest.raises(LedgerOutdated, match=f"there is no ledger at {path}"):
        check_schema(engine)

    assert [*path.parent.iterdir()] == []


def test_a_file_that_is_no_database_is_left_as_it_is(engine: Engine, path: Path) -> None:
    text = "this is a shopping list, not a database\n" * 100
    path.write_text(text)

    with pytest.raises(LedgerUnavailable, match=r"upgrading .*ledger.db: .*not an SQLite database"):
        upgrade(engine)

    assert path.read_text() == text


@pytest.mark.usefixtures("impatient")
def test_a_file_that_somebody_keeps_locked_can_be_read_and_says_so_on_a_write(
    engine: Engine, path: Path
) -> None:
    upgrade(engine, NOON)
    ledger = sql_ledger(FrozenClock(NOON), engine)

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        listed = ledger.schedules.schedules()
        with pytest.raises(LedgerUnavailable, match=r"saving schedules .*another process"):
            ledger.schedules.save([draft()], source=None, now=NOON)
        other.execute("ROLLBACK")
    ledger.schedules.save([draft()], source=None, now=NOON)

    assert listed == []
    assert [stored.name for stored in ledger.schedules.schedules()] == ["report"]


def _limit(engine: Engine, pages: int) -> None:
    """Let the file grow no further, as a full disk would, or let it grow again."""
    engine.dispose()

    @event.listens_for(engine, "connect")
    def _bound(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_loses_nothing_and_goes_on_once_there_is_room(engine: Engine) -> None:
    upgrade(engine, NOON)
    clock = FrozenClock(NOON)
    ledger = sql_ledger(clock, engine)
    big = '{"text": "' + "x" * 100_000 + '"}'
    ledger.add(params=big)
    clock.advance(MINUTE)
    _limit(engine, 1)  # what is there already counts: SQLite raises it to the present size

    with pytest.raises(LedgerUnavailable, match=r"claiming what is due .*the disk is full"):
        ledger.claim_due()
    nothing_claimed = ledger.executions()
    _limit(engine, 100_000)
    batch = ledger.claim_due()

    assert nothing_claimed == []
    assert [(one.state, one.params) for one in batch.claimed] == [(State.CLAIMED, big)]


def test_a_read_only_database_says_so(engine: Engine) -> None:
    upgrade(engine, NOON)
    ledger = sql_ledger(FrozenClock(NOON), engine)
    engine.dispose()
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only=1"))

    with pytest.raises(LedgerUnavailable, match=r"saving schedules .*read-only: let this user"):
        ledger.schedules.save([draft()], source=None, now=NOON)
