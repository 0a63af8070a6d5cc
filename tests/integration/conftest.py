from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

import pytest

from cronhare.adapters.memory.clock import FrozenClock
from cronhare.adapters.sql import open_engine, upgrade
from tests.integration.ledgers import NOON, Ledger, memory_ledger, sqlite_ledger


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(NOON)


@pytest.fixture
def memory(clock: FrozenClock) -> Ledger:
    return memory_ledger(clock)


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The migrations take longer than a test: they run once, and each test copies the file."""
    path = tmp_path_factory.mktemp("sqlite") / "migrated.db"
    engine = open_engine(f"sqlite:///{path}")
    upgrade(engine)
    engine.dispose()
    return path


@pytest.fixture
def sqlite(clock: FrozenClock, migrated_sqlite: Path, tmp_path: Path) -> Iterator[Ledger]:
    path = tmp_path / "ledger.db"
    copyfile(migrated_sqlite, path)
    with sqlite_ledger(clock, path) as ledger:
        yield ledger


@pytest.fixture(params=["memory", "sqlite"])
def fresh_ledger(request: pytest.FixtureRequest) -> Ledger:
    """A ledger as it is on its first day."""
    ledger: Ledger = request.getfixturevalue(request.param)
    return ledger


@pytest.fixture
def ledger(fresh_ledger: Ledger) -> Ledger:
    """A ledger whose own schedule, the daily cleanup, is planned."""
    fresh_ledger.plan_edited()
    return fresh_ledger
