"""Runs that programs enqueue, in SQL: one INSERT, on our connection or on theirs.

On theirs it is plain text for whatever driver it is, as nothing of their session is ours: neither
types, nor the isolation, nor the time zone. It does not break their transaction: a key that is
taken is no error.
"""

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from functools import lru_cache, partial
from itertools import count, groupby
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import attrs
import msgspec
import sqlalchemy as sa

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.enqueue import refuse_other
from cronhare.domain.schedules.draft import ScheduleDraft, compile_schedule
from cronhare.domain.schedules.schedule import OWNER_FIELDS, BrokenSchedule, Schedule
from cronhare.ports import LedgerRefused
from cronhare.ports.claims import Enqueued, OtherDatabase
from cronhare.ports.system import ClockPort

from .database import Database, repeatable
from .tables.executions import BY_IDS, NEW_COLUMNS, batches, find_executions, new_values
from .tables.schedules import READ, row_values, schedule_of
from .tables.tables import executions, schedulers
from .tables.types import UtcDateTime, from_text, to_text

#: Rows of one statement, whose parameters stay below SQLite's 32,766.
_ROWS: Final = 500

_NAMED: Final[sa.Select[Any]] = sa.select(*READ).where(
    schedulers.c.name.in_(sa.bindparam("names", expanding=True))
)

#: What a database is called, and how parameters are written, by the module of its driver.
_DRIVERS: Final = {
    "sqlite3": ("sqlite", "qmark"),
    "pymysql": ("mysql", "format"),
    "MySQLdb": ("mysql", "format"),
    "psycopg": ("postgresql", "format"),
    "psycopg2": ("postgresql", "format"),
}
_USABLE: Final = (
    "on= takes a Connection or Session of SQLAlchemy (an AsyncConnection or AsyncSession with "
    "aenqueue), a connection of sqlite3, PyMySQL, mysqlclient or psycopg, or the alias of a "
    "database of Django"
)

#: Which database of which server it is, asked of the server itself: two URLs may lead to one.
_WHICH: Final = {
    "mysql": "SELECT CONCAT('the MySQL or MariaDB database ', DATABASE(), ' at ', @@hostname, ':', "
    "@@port), @@datadir",
    "postgresql": "SELECT 'the PostgreSQL database ' || current_database() || ', schema ' || "
    "current_schema(), EXTRACT(EPOCH FROM pg_postmaster_start_time()), "
    "CAST(to_regclass('SchedulerExecution') AS oid)",
}

T = TypeVar("T")

Values = tuple[Any, ...]


@attrs.frozen
class Link:
    """A connection of anybody's: which *kind* of database, and how its parameters are written.

    *run* executes a statement, and answers its rows. *engine* stands for all connections to the
    same database, where that is known; *commits* takes what is to be called when its transaction
    commits, where it can.
    """

    kind: str
    style: str
    run: Callable[[str, Values], list[Any]]
    engine: object
    commits: Callable[[Callable[[], None]], None] | None = None

    def execute(self, statement: str, values: Values = ()) -> list[Any]:
        if self.style in {"format", "pyformat"}:
            statement = statement.replace("?", "%s")
        elif self.style == "numeric_dollar":
            places = count(1)
            statement = re.sub(r"\?", lambda _: f"${next(places)}", statement)
        return self.run(statement, values)

    def database(self) -> tuple[str, ...]:
        """Ask which database it is: what people call it comes first."""
        if self.kind != "sqlite":
            return tuple(map(str, self.execute(_WHICH[self.kind])[0]))
        rows = self.execute("PRAGMA database_list")
        path = next((row[2] for row in rows if row[1] == "main"), "")
        if not path:
            return ("a database in memory",)
        file = Path(path).stat()
        return f"the file {path}", f"{file.st_dev}:{file.st_ino}"


def link_to(on: Any) -> Link:  # noqa: ANN401 - whatever was given
    """Find out what was given as `on=`.

    Raises:
        OtherDatabase: it is nothing that can be used.
    """
    if isinstance(on, str):
        return _django(on)
    orm: Any = sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(on, orm.scoped_session | orm.Session):
        on = on.connection()
    return _sqlalchemy(on) if isinstance(on, sa.Connection) else _driver(on)


def _sqlalchemy(connection: sa.Connection) -> Link:
    kind = connection.dialect.name.replace("mariadb", "mysql")
    if kind not in {"sqlite", *_WHICH}:
        raise OtherDatabase(f"{kind} keeps no ledger of cronhare, so that on= cannot be used there")

    def run(statement: str, values: Values) -> list[Any]:
        result = connection.exec_driver_sql(statement, values or None)
        return list(result) if result.returns_rows else []

    def commits(call: Callable[[], None]) -> None:
        if connection not in _waiting:
            sa.event.listen(connection, "commit", _committing)  # SQLAlchemy tells just before
        _waiting.setdefault(connection, []).append(call)

    return Link(kind, connection.dialect.paramstyle, run, connection.engine, commits)


_waiting: Final = WeakKeyDictionary[sa.Connection, list[Callable[[], None]]]()


def _committing(connection: sa.Connection) -> None:
    calls = _waiting.get(connection, [])
    while calls:
        calls.pop()()


def _driver(connection: Any) -> Link:  # noqa: ANN401 - any driver's
    modules = [each.__module__.partition(".")[0] for each in type(connection).__mro__]
    found = next((_DRIVERS[name] for name in modules if name in _DRIVERS), None)
    if found is None or not hasattr(connection, "cursor"):
        raise OtherDatabase(f"{type(connection).__qualname__} is none that can be used: {_USABLE}")

    def run(statement: str, values: Values) -> list[Any]:
        with closing(connection.cursor()) as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall()) if cursor.description else []

    return Link(*found, run, connection)


def _django(alias: str) -> Link:
    try:
        from django.db import connections, transaction  # noqa: PLC0415
    except ImportError as error:
        why = f"there is no Django here to have a database {alias!r}"
        raise OtherDatabase(f"{why}; {_USABLE}") from error
    wrapper = connections[alias]
    wrapper.ensure_connection()
    commits = partial(transaction.on_commit, using=alias)
    return attrs.evolve(_driver(wrapper.connection), engine=wrapper, commits=commits)


# Statements


@lru_cache(maxsize=64)
def _insert(table: str, unique: str, kind: str, columns: tuple[str, ...], rows: int) -> str:
    """Write an INSERT that leaves a row as it is that has the same *unique* columns."""
    row = f"({', '.join('?' * len(columns))})"
    taken = f"ON CONFLICT ({unique}) DO NOTHING"
    if kind == "mysql":
        taken = f"ON DUPLICATE KEY UPDATE id = {table}.id"
    values = ", ".join([row] * rows)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values} {taken}"  # noqa: S608


#: How a row is read after its INSERT. A snapshot of MySQL may be too old for one that others have
#: committed; that is locked since the INSERT. To lock one of ours, for which others wait already,
#: would be a deadlock.
_READS: Final = {"mysql": ("", " LOCK IN SHARE MODE"), "sqlite": ("",), "postgresql": ("",)}

_MOMENTS: Final = frozenset(
    column.name
    for table in (executions, schedulers)
    for column in table.c
    if isinstance(column.type, UtcDateTime)
)


def _written(kind: str, name: str, value: Any) -> Any:  # noqa: ANN401
    """Write a value for any driver: a moment without a zone would be one of their session's."""
    if name in _MOMENTS and value is not None:
        text = to_text(value) if isinstance(value, datetime) else value
        return from_text(text) if kind == "postgresql" else text
    return int(value) if isinstance(value, bool) else value


def insert_executions(link: Link, runs: Sequence[Execution]) -> Iterator[Enqueued]:
    having = _insert_or_find(link, runs)
    if lacking := [run for run in runs if run.key not in having]:
        having |= _insert_or_find(link, lacking)  # MySQL met a row that was rolled back just then
    for run in runs:
        if run.key not in having:
            raise LedgerRefused(f"the ledger has no run {run.key} after its INSERT")
        id_, params, is_new = having[run.key]
        if params != run.params:
            refuse_other(run, execution=id_, params=params or "{}")
        yield Enqueued(id=id_, new=bool(is_new))


_TOLD: Final = "execution_key, id, params, executed_at = ?"

#: The INSERT itself tells it, where it can: PostgreSQL of new rows, MariaDB of all. To MySQL that
#: is a comment. A driver in Python reads one text sooner than four columns.
_TELLING: Final = {
    "mysql": " /*M!100500 RETURNING JSON_ARRAY(execution_key, id, CONCAT(params, ''), "
    "executed_at = ?) */",
    "postgresql": f" RETURNING {_TOLD}",
}


def _insert_or_find(link: Link, runs: Sequence[Execution]) -> dict[str, tuple[int, str, bool]]:
    kind, rows = link.kind, [new_values(run) for run in runs]
    columns = zip(NEW_COLUMNS, zip(*rows, strict=True), strict=True)
    said = {name: each for name, each in columns if each.count(None) < len(rows)}
    if kind == "postgresql":
        said = {n: tuple(_written(kind, n, it) for it in each) for n, each in said.items()}
    values = [it for row in zip(*said.values(), strict=True) for it in row]
    now = _written(kind, "executed_at", runs[0].executed_at)
    unique, telling = "scheduler_id, execution_key", _TELLING.get(kind, "")
    statement = _insert("SchedulerExecution", unique, kind, tuple(said), len(runs)) + telling
    told = link.execute(statement, (*values, now) if telling else tuple(values))
    if kind == "mysql":
        told = [msgspec.json.decode(text) for [text] in told]
    having: dict[str, tuple[int, str, bool]] = {key: tuple(rest) for key, *rest in told}
    for how in _READS[link.kind]:
        if keys := [run.key for run in runs if run.key not in having]:
            query = (
                f"SELECT {_TOLD} FROM SchedulerExecution WHERE scheduler_id = ? "  # noqa: S608
                f"AND execution_key IN ({', '.join('?' * len(keys))}){how}"
            )
            found = link.execute(query, (now, runs[0].scheduler_id, *keys))
            having |= {key: tuple(rest) for key, *rest in found}
    return having


def _insert_all(link: Link, runs: Sequence[Execution]) -> Sequence[Enqueued]:
    """Insert in the same order everywhere, so that two callers cannot deadlock."""
    ordered = sorted(runs, key=lambda run: (run.scheduler_id, run.key))
    answers = {
        (run.scheduler_id, run.key): answer
        for _, same in groupby(ordered, key=lambda run: run.scheduler_id)
        for part in batches(list(same), _ROWS)
        for run, answer in zip(part, insert_executions(link, part), strict=True)
    }
    return [answers[run.scheduler_id, run.key] for run in runs]


def _make(link: Link, draft: ScheduleDraft, source: str | None, now: datetime) -> int:
    """Insert a schedule unless its name is taken; answers the id of the one that has it."""
    moment = to_text(now)
    row = {**row_values(draft), "source": source, "created_at": moment, "updated_at": moment}
    said = {name: value for name, value in row.items() if value is not None}
    values = tuple(_written(link.kind, name, value) for name, value in said.items())
    link.execute(_insert("Scheduler", "name", link.kind, tuple(said), 1), values)
    query = "SELECT id FROM Scheduler WHERE name = ?"
    found = (link.execute(query + how, (draft.name,)) for how in _READS[link.kind])
    return int(next(filter(None, found))[0][0])


class SqlEnqueueStore:
    """Satisfies `EnqueuePort`."""

    def __init__(self, engine: sa.Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)
        self._checked = WeakSet[Any]()

    @repeatable
    def schedules(self, names: Collection[str]) -> Mapping[str, Schedule | BrokenSchedule]:
        with self._database.read("looking for the schedules of tasks") as connection:
            rows = connection.execute(_NAMED, {"names": list(names)})
            return {row.name: schedule_of(row) for row in rows}

    def check(self, on: object) -> None:
        link = link_to(on)
        with suppress(TypeError):  # a driver's connection that cannot be referred to weakly
            if link.engine in self._checked:
                return
        with self._database.read("asking which database it is") as connection:
            ours = _sqlalchemy(connection).database()
        if (theirs := link.database()) != ours:
            raise OtherDatabase(
                f"on= leads to {theirs[0]}, and the ledger is in {ours[0]}: both have to be one. "
                "Keep the ledger beside your tables (CRON_DATABASE_URL, or App(ledger=)), or "
                "enqueue without on= after your commit"
            )
        with suppress(TypeError):
            self._checked.add(link.engine)

    def make(
        self, draft: ScheduleDraft, *, source: str, now: datetime, on: object | None
    ) -> Schedule:
        make = partial(_make, draft=draft, source=source, now=now)
        id_ = make(link_to(on)) if on is not None else self._write(make)
        return compile_schedule(draft, id=id_, changed_at=now, source=source)

    def put(self, draft: ScheduleDraft, *, now: datetime, on: object) -> None:
        link = link_to(on)
        id_ = _make(link, draft, None, now)
        row = {**row_values(draft), "updated_at": to_text(now)}
        said = {n: v for n, v in row.items() if v is not None or n not in OWNER_FIELDS}
        names = ", ".join(f"{name} = ?" for name in said)
        values = [_written(link.kind, name, value) for name, value in said.items()]
        link.execute(f"UPDATE Scheduler SET {names} WHERE id = ?", (*values, id_))  # noqa: S608

    def enqueue(self, runs: Sequence[Execution], *, on: object | None = None) -> Sequence[Enqueued]:
        if on is not None:
            return _insert_all(link_to(on), runs)
        if len(runs) > 1:
            return self._write(partial(_insert_all, runs=runs))
        return self._insert_alone(runs)

    @repeatable
    def _write(self, do: Callable[[Link], T]) -> T:
        with self._database.write("enqueueing") as connection:
            return do(_sqlalchemy(connection))

    @repeatable  # its key is there then
    def _insert_alone(self, runs: Sequence[Execution]) -> Sequence[Enqueued]:
        with self._database.at_once("enqueueing") as connection:
            return list(insert_executions(_sqlalchemy(connection), runs))

    @repeatable
    def committed(self, ids: Collection[int]) -> Mapping[int, Execution]:
        with self._database.read("looking for what was enqueued") as connection:
            return find_executions(connection, BY_IDS, ids)

    def after_commit(self, on: object, call: Callable[[], None]) -> None:
        if (commits := link_to(on).commits) is not None:
            commits(call)
