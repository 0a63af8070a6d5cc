"""The file of an SQLite ledger: shared by processes, locked, and what may go wrong with it."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import attrs
import pytest
from sqlalchemy import Engine, event

from cronhare.adapters.sql.dialects import open_engine, sqlite
from cronhare.adapters.sql.dialects.sqlite_file import make_file, occupy
from cronhare.adapters.sql.migrations.upgrade import check_schema, upgrade
from cronhare.domain.execution import State
from cronhare.ports import LedgerOutdated, LedgerUnavailable
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import MINUTE, NOON, Ledger, draft, sql_ledger
from tests.services.finding import wait_until

pytestmark = pytest.mark.integration

DUE = NOON + timedelta(minutes=1)
SCHEDULES = 400
NODES = ("ant", "bee", "cat", "dog")
PATIENCE = 60.0

ROOT = Path(__file__).parents[2]
MODULE = "tests.integration.test_sqlite_files"


@attrs.frozen
class Stage:
    """A folder by whose files processes tell each other how far they are."""

    folder: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'ledger.db'}"

    def ledger(self) -> Ledger:
        return sql_ledger(FrozenClock(DUE), open_engine(self.url))

    def tell(self, sign: str) -> None:
        (self.folder / sign).touch()

    def wait_for(self, *signs: str) -> None:
        wait_until(
            lambda: all((self.folder / sign).exists() for sign in signs),
            seconds=PATIENCE,
            what=" ".join(signs),
            every=0.002,
        )


def claim_with_the_others(stage: Stage, node: str) -> Iterator[str]:
    """Upgrade, plan and claim, each at the same moment as the others."""
    stage.tell(f"{node}-is-there")
    stage.wait_for("upgrade")
    upgrade(open_engine(stage.url), NOON)
    stage.tell(f"{node}-upgraded")
    stage.wait_for("claim")
    ledger = stage.ledger()
    while ledger.claims.plan_edited(
        now=DUE, since=None, limit=17, node=node, planner=ledger.planner
    ).looked:
        pass
    while (batch := ledger.claim_due(limit=7, node=node)).looked:
        ledger.claims.mark_published(batch.claimed, now=DUE)
        yield from (f"{one.schedule_name} {one.key}" for one in batch.claimed)


def start(stage: Stage, node: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", MODULE, str(stage.folder), node]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_four_processes_share_a_new_file_and_claim_each_key_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    processes = [start(stage, node) for node in NODES]
    stage.wait_for(*(f"{node}-is-there" for node in NODES))
    stage.tell("upgrade")
    stage.wait_for(*(f"{node}-upgraded" for node in NODES))
    drafts = [draft(f"job-{n}") for n in range(SCHEDULES)]
    stage.ledger().schedules.save(drafts, source=None, now=NOON)

    stage.tell("claim")
    said = [process.communicate(timeout=PATIENCE)[0] for process in processes]

    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    keys = [line for text in said for line in text.splitlines()]
    assert sorted(keys) == sorted(f"job-{n} cron-2026-3-2-12-1" for n in range(SCHEDULES))


# What a process does with the file ends none of the locks that SQLite has on it


#: Another process that writes, and is gone: were it the last, it would remove the WAL.
_PASSER_BY = """
import sqlite3, sys
ledger = sqlite3.connect(sys.argv[1])
ledger.execute("INSERT INTO said VALUES ('passer-by')")
ledger.commit()
ledger.close()
"""


@pytest.mark.parametrize(
    "handle", [make_file, lambda path: occupy(path, alone=False)], ids=["make", "occupy"]
)
def test_another_process_does_not_take_itself_for_the_last(
    handle: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    make_file(path)
    with closing(sqlite3.connect(path)) as ours:
        ours.execute("PRAGMA journal_mode = WAL")
        ours.execute("CREATE TABLE said (what TEXT)")
        ours.commit()

        handle(path)
        subprocess.run([sys.executable, "-c", _PASSER_BY, str(path)], check=True, timeout=60)

        assert path.with_name("ledger.db-wal").exists()
        ours.execute("INSERT INTO said VALUES ('ours')")
        ours.commit()
    with closing(sqlite3.connect(path)) as later:
        assert later.execute("SELECT what FROM said").fetchall() == [("passer-by",), ("ours",)]


# What goes wrong, in sentences that say what to do


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


if __name__ == "__main__":
    folder, node = sys.argv[1:]
    for done in claim_with_the_others(Stage(Path(folder)), node):
        print(done)
