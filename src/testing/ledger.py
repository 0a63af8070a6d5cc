"""The SQL ledger on SQLite in memory: production's code for tests without file, server or wait."""

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from typing import Any, Final, Self

from sqlalchemy import Connection, Engine, StaticPool, create_engine
from sqlalchemy.engine import Dialect as Compiling

from cronhare.adapters.addresses import LedgerFile
from cronhare.adapters.sql.dialect import dialect_of, with_dialect
from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.dialects.sqlite import SqliteDialect
from cronhare.adapters.sql.dialects.sqlite_file import prepare
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.ports.system import ClockPort


class _Kept(Connection):
    """The only connection to its database. Closed it stays open; threads take turns."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._turn, self._users = RLock(), 0

    def __enter__(self) -> Self:
        self._turn.acquire()
        self._users += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if not self._users:
            self.rollback()
        self._turn.release()


class _Database:
    """A database whose ledger is replaced; to connect to it again and again would take longer."""

    def __init__(self) -> None:
        self._raw = raw = sqlite3.connect(
            ":memory:", check_same_thread=False, cached_statements=1_000
        )
        prepare(raw)
        engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
        dialect = SqliteDialect(LedgerFile(":memory:"))
        self._engine = with_dialect(compiled_once(engine), dialect)
        self._connection = _Kept(self._engine)

    def begin(self, clock: ClockPort) -> Engine:
        """Hold an empty ledger, whose own schedule was written at the clock's time."""
        self._raw.deserialize(template())
        at = f"{clock.now():%Y-%m-%d %H:%M:%S.%f}"
        self._raw.execute("UPDATE Scheduler SET created_at = ?, updated_at = ?", (at, at))
        engine = with_dialect(self._engine, dialect_of(self._engine))
        engine.connect = lambda: self._connection  # type: ignore[method-assign]
        return engine


_free: Final = list[_Database]()
_taken: Final = list[_Database]()

#: To compile each statement anew for each engine would take half of a test.
_COMPILED: Final[dict[Any, Any]] = {}


def memory_engine(clock: ClockPort) -> Engine:
    """Give the engine of an empty ledger, until the end of the test: see `release`."""
    _taken.append(_free.pop() if _free else _Database())
    return _taken[-1].begin(clock)


def release() -> None:
    """Use the databases of a test again in the next one."""
    _free.extend(_taken)
    _taken.clear()


def compiled_once(engine: Engine) -> Engine:
    """Let the engines of all SQLite ledgers share what is compiled."""
    engine.dialect = _compiling()  # which compiled statements are known by
    return engine.execution_options(compiled_cache=_COMPILED)


@cache
def _compiling() -> Compiling:
    engine = create_engine("sqlite://")
    engine.connect().close()  # it looks at SQLite, once
    engine.dispose()
    return engine.dialect


@cache
def template() -> bytes:
    """Make an empty ledger, once in a process, as an upgrade makes it."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "ledger.db")
        engine = open_engine(f"sqlite:///{path}")
        upgrade(engine)
        engine.dispose()
        with closing(sqlite3.connect(path)) as file:
            file.execute("PRAGMA journal_mode = DELETE")  # there is no WAL in memory
            return file.serialize()
