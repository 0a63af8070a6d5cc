"""MySQL 8.0 and MariaDB 10.6, or newer: any number of hosts. InnoDB's row locks keep them apart."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any, Final, TypeAlias, TypeVar, cast

import attrs
import msgspec
import sqlalchemy as sa
from sqlalchemy import text
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import NullType, String, TypeEngine

from cronhare.adapters.addresses import LedgerServer
from cronhare.domain.addresses import Host
from cronhare.domain.execution import Execution
from cronhare.ports import LedgerUnavailable
from cronhare.ports.inspection import DatabaseFacts, Link, Requirements

from ..dialect import Columns, TransactionRolledBack, hurries, with_dialect
from ..tables.executions import (
    MAY_SUCCEED,
    NEW_COLUMNS,
    REPLACE,
    SUCCEEDS,
    SUCCESS,
    SUCCESS_TYPES,
    new_values,
)
from ..tables.tables import FOUND_BY_KEY, by_id, executions, metadata
from ..tables.types import IsOneOf, UtcDateTime, row_maker
from .batches import FRESH, PLAN_COLUMNS, ColumnTypes, Rows, rows_of, type_name, with_columns
from .mysql_sessions import MysqlSessions, read_moment
from .servers import MIGRATION_SECONDS, REQUIREMENTS, ServerDialect

# Tables

#: A text column says its collation: an adopted table may have any, and a key or a name is the same
#: only if every letter is.
COLLATION: Final = "utf8mb4_bin"

COLUMNS: Final = Columns(
    id=sa.BigInteger(),
    moment=mysql.DATETIME(fsp=6),
    flag=sa.Boolean(),
    text=mysql.MEDIUMTEXT(collation=COLLATION),  # MySQL's own TEXT ends at 64 KB
    string=partial(mysql.VARCHAR, collation=COLLATION),
    reads_moments=True,
    # Not DATETIME: a TIMESTAMP is UTC whatever the time zone of the session that edits; an edit
    # hours ahead would keep a schedule from running until then. Servers that end it in 2038 have a
    # way to go until this table must change.
    kept_up=mysql.TIMESTAMP(fsp=6),
    created_at="CURRENT_TIMESTAMP(6)",
    updated_at="CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)",
    has_partial_indexes=False,
)

_ADOPTED = ("Scheduler", "SchedulerExecution")

_KEPT_UP = {"created_at": COLUMNS.created_at, "updated_at": COLUMNS.updated_at}

_REFERENCES = text(
    "SELECT CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS "
    "WHERE CONSTRAINT_SCHEMA = DATABASE() AND TABLE_NAME = 'SchedulerExecution' "
    "AND REFERENCED_TABLE_NAME = 'Scheduler'"
)
_COLUMNS = text(
    "SELECT COLUMN_NAME AS name, DATA_TYPE AS kind, COLUMN_TYPE AS full_type, "
    "CHARACTER_SET_NAME AS charset, COLLATION_NAME AS collation, "
    "DATETIME_PRECISION AS digits, IS_NULLABLE = 'YES' AS nullable, "
    "COLUMN_DEFAULT AS initial "
    "FROM information_schema.COLUMNS "
    "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = :name ORDER BY ORDINAL_POSITION"
)


def _change(column: sa.Row[Any]) -> str | None:
    """Say how a column must change: to keep fractions of seconds, and keys letter by letter.

    A flag may be no BIT: the driver reads it as a byte, and its schedule would be broken.
    """
    null = "NULL" if column.nullable else "NOT NULL"
    if column.name in _KEPT_UP:
        return None
    if column.kind == "timestamp" or (column.kind == "datetime" and not column.digits):
        return f"DATETIME(6) {null}"
    if column.full_type == "bit(1)":
        initial = "" if column.initial is None else f" DEFAULT {column.initial}"
        return f"TINYINT(1) {null}{initial}"
    if column.name in {"execution_key", "container_id"} and column.collation != COLLATION:
        return f"{column.full_type} CHARACTER SET utf8mb4 COLLATE {COLLATION} {null}"
    return None


def _keep_up_times_of_their_own(connection: sa.Connection) -> None:
    """Let columns that were there already, under our names, be kept up as ours are."""
    for column in connection.execute(_COLUMNS, {"name": "Scheduler"}).all():
        name, default = column.name, _KEPT_UP.get(column.name)
        if default is None or (column.kind == "timestamp" and column.digits):
            continue
        connection.exec_driver_sql(
            f"UPDATE `Scheduler` SET `{name}` = UTC_TIMESTAMP() WHERE `{name}` IS NULL"  # noqa: S608
        )
        connection.exec_driver_sql(
            f"ALTER TABLE `Scheduler` MODIFY `{name}` TIMESTAMP(6) NOT NULL DEFAULT {default}"
        )


T = TypeVar("T")

#: So much goes into one statement, to stay below the smallest `max_allowed_packet` in use (16 MB)
#: even if the driver has to escape every letter.
LARGEST_DOCUMENT: Final = 4 * 1024 * 1024

#: Reads a JSON text as a list; msgspec takes four times as long to be asked for it anew.
as_list: Final = msgspec.json.Decoder(list[Any]).decode


def open_engine(server: LedgerServer) -> sa.Engine:
    """Make the engine for a database on one of several servers. Connects to nothing yet."""
    sessions = MysqlSessions(server)
    return with_dialect(sessions.pooled_engine(), MysqlDialect(sessions))


@compiles(IsOneOf, "mysql")
def _is_one_of(element: IsOneOf, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    """Write ids into the statement: PyMySQL escapes each parameter in Python, which takes 3 µs."""
    id_, ids = element.clauses
    key = cast(Any, ids).key
    written = sa.bindparam(key, expanding=True, literal_execute=True, type_=sa.BigInteger)
    return compiler.process(id_.in_(written), **options)


# Rows of parameters

_ROWS: Final = "rows"

#: In another character set, letters that the database's own lacks would become ?
_TYPES: Final[Mapping[type[TypeEngine[Any]], str]] = {
    sa.DateTime: "DATETIME(6)",
    sa.Integer: "BIGINT",
    sa.Float: "DOUBLE",
    sa.String: "LONGTEXT CHARACTER SET utf8mb4",
}


def _parameters(rows: Rows) -> Iterator[dict[str, Any]]:
    if rows.agreed and not rows.differing:
        yield dict(rows.agreed)
        return
    written = map(msgspec.json.encode, rows.differences)
    for part in parts_of((piece, len(piece) + 1) for piece in written):
        yield {**rows.agreed, _ROWS: f"[{b','.join(part).decode()}]"}


def _join(statement: sa.Update, columns: ColumnTypes) -> sa.Update:
    """Have the rows read first, and each of ours found by its key.

    The server would rather read all rows of a small table, and wait for those that are locked.
    """
    rows = _table(f":{_ROWS}", {f"given_{name}": kind for name, kind in columns.items()})
    given = {
        name: sa.literal_column(f"{FRESH}.given_{name}", kind) for name, kind in columns.items()
    }
    return (
        with_columns(statement, given)
        .prefix_with(text(f"{rows} STRAIGHT_JOIN"))
        .with_hint(FOUND_BY_KEY)
    )


def _table(parameter: str, columns: ColumnTypes) -> str:
    described = ", ".join(
        f"`{name}` {type_name(kind, _TYPES)} PATH '$[{place}]'"
        for place, (name, kind) in enumerate(columns.items())
    )
    return f"JSON_TABLE({parameter}, '$[*]' COLUMNS ({described})) AS {FRESH}"


def parts_of(sized: Iterable[tuple[T, int]]) -> Iterator[Sequence[T]]:
    """Divide items with sizes in bytes, so that no part is much larger than `LARGEST_DOCUMENT`."""
    part: list[T] = []
    size = 0
    for item, more in sized:
        if part and size + more > LARGEST_DOCUMENT:
            yield part
            part, size = [], 0
        part.append(item)
        size += more
    if part:
        yield part


@lru_cache(maxsize=64)
def _set_plans(differing: tuple[str, ...]) -> str:
    values = {
        name: f"{FRESH}.`{name}`" if name in differing else f"%({name})s" for name in PLAN_COLUMNS
    }
    table = _table(f"%({_ROWS})s", {name: PLAN_COLUMNS[name] for name in differing})
    changes = (f"{name} = {value}" for name, value in values.items() if name != "scheduler_id")
    return (
        f"INSERT INTO `SchedulerPlan` ({', '.join(values)}) "  # noqa: S608 - names of our own
        f"SELECT {', '.join(values.values())} FROM {table if differing else 'DUAL'} "
        f"ON DUPLICATE KEY UPDATE {', '.join(changes)}"
    )


#: MySQL, to which it is a comment, knows no shorter wait than a second, nor one of a statement.
_HURRY: Final = "/*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */ "


@lru_cache(maxsize=64)
def _succeed(differing: tuple[str, ...]) -> str:
    value = {name: f"{FRESH}.{name}" if name in differing else f"%({name})s" for name in SUCCESS}
    rows = _table(f"%({_ROWS})s", {name: SUCCESS_TYPES[name] for name in differing})
    said = ", ".join(f"a.{name} = {value[name]}" for name in SUCCESS[1:])
    return (
        f"{_HURRY}UPDATE {rows + ' STRAIGHT_JOIN' if differing else ''} "  # noqa: S608 - names of our own
        f"`SchedulerExecution` AS e {FOUND_BY_KEY} "
        f"STRAIGHT_JOIN `ExecutionAttempt` AS a {FOUND_BY_KEY} "
        f"SET {SUCCEEDS.format(e='e')}, e.finished_at = %(now)s, "
        f"a.finished_at = %(now)s, a.ending = 'succeeded', {said} "
        f"WHERE e.id = {value['id']} AND {MAY_SUCCEED.format(e='e', node='%(node)s')} "
        "AND a.execution_id = e.id AND a.attempt = 1"
    )


# New executions are an INSERT ... VALUES: no other INSERT waits for it. MariaDB, and MySQL with
# `innodb_autoinc_lock_mode` 1, keep the numbers of a table locked until an INSERT ... SELECT has
# ended: also while it waits at a gap that somebody holds, and nobody else can insert into that
# table. Of VALUES the server knows how many there are, and gives the numbers away at once (ADR 11).

_NEWEST: Final = sa.select(sa.func.coalesce(sa.func.max(executions.c.id), 0))
_NEWER: Final = (  # as JSON: see `read`
    "SELECT JSON_ARRAY(id, scheduler_id, execution_key) FROM `SchedulerExecution` WHERE id > %s"
)

#: Left out where they are NULL in all rows: each value costs the server time.
_MAY_BE_LEFT_OUT: Final = frozenset(name for name in NEW_COLUMNS if executions.c[name].nullable)

#: A letter has up to four bytes, or two with the driver's escape; a number has not many more.
_BYTES_OF_A_LETTER: Final = 4
_BYTES_OF_ANOTHER: Final = 32


def inserts(values: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the statements that insert new executions, whose *values* are of `NEW_COLUMNS`.

    A duplicate updates itself to itself. INSERT IGNORE would swallow every other fault, too, and a
    plain INSERT that fails in a transaction leaves a shared lock, over which two of them deadlock.
    """
    rows = rows_of(NEW_COLUMNS, values)
    agreed = {
        name: value
        for name, value in rows.agreed.items()
        if value is not None or name not in _MAY_BE_LEFT_OUT
    }
    columns = ", ".join((*agreed, *rows.differing))
    said = [f"%({name})s" for name in agreed]
    smallest = sum(map(_size, agreed.values()))
    for part in parts_of((row, smallest + sum(map(_size, row))) for row in rows.differences):
        tuples = []
        parameters = dict(agreed)
        for place, row in enumerate(part):
            own = [f"{name}_{place}" for name in rows.differing]
            parameters.update(zip(own, row, strict=True))
            tuples.append(f"({', '.join((*said, *(f'%({name})s' for name in own)))})")
        statement = (
            f"INSERT INTO `SchedulerExecution` ({columns}) "  # noqa: S608 - names of our own
            f"VALUES {', '.join(tuples)} ON DUPLICATE KEY UPDATE id = `SchedulerExecution`.id"
        )
        yield statement, parameters


def _size(value: object) -> int:
    return _BYTES_OF_A_LETTER * len(value) if isinstance(value, str) else _BYTES_OF_ANOTHER


# Rows that are read

#: Reads a row that was written as JSON.
_Reader: TypeAlias = Callable[[str | None], sa.Row[Any]]


@lru_cache(maxsize=16)
def _packed(statement: sa.Select[Any]) -> tuple[sa.Select[Any], _Reader]:
    """Turn a SELECT into one of rows as JSON, and give what reads these."""
    columns = list(statement.selected_columns)
    make = row_maker(tuple(column.key or "" for column in columns))
    moments = [place for place, each in enumerate(columns) if isinstance(each.type, UtcDateTime)]

    def read(said: str | None) -> sa.Row[Any]:
        values = as_list(said or "")
        for place in moments:
            if values[place] is not None:
                values[place] = read_moment(values[place])
        return make(values)

    array = sa.func.JSON_ARRAY(*map(_as_json, columns))
    return statement.with_only_columns(array, maintain_column_froms=True), read


def _as_json(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Have text quoted, whatever it holds: JSON text would become a part of the array."""
    if isinstance(column.type, String | NullType):
        # Anything but a column is never taken for JSON.
        return sa.func.CONCAT(column, sa.literal_column("''"))
    return column


# What it says of itself, for `cronhare doctor`

_VARIABLES: Final = text(
    "SHOW SESSION VARIABLES WHERE Variable_name IN "
    "('read_only', 'innodb_flush_log_at_trx_commit', 'max_allowed_packet')"
)
_ENGINES: Final = text(
    "SELECT table_name, engine FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"
)


# The dialect


_UNLOCKED: Final = by_id(sa.select(executions.c.id)).with_for_update(skip_locked=True)


class MysqlDialect(ServerDialect):
    """Satisfies `Dialect`."""

    time = sa.select(text("UTC_TIMESTAMP(6)"))
    parameters = staticmethod(_parameters)
    join = staticmethod(_join)
    plan_statement = staticmethod(_set_plans)
    success_statement = staticmethod(_succeed)
    version = "SELECT VERSION()"
    settings = _VARIABLES

    def read(
        self, connection: sa.Connection, statement: sa.Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[sa.Row[Any]]:
        """Read each row as one JSON text.

        PyMySQL takes the fields of a row apart one by one, in Python: 27 of them take 17 µs, one
        that msgspec takes apart 3.
        """
        packed, read = _packed(statement)
        texts = connection.scalars(packed, parameters).all()
        try:
            return list(map(read, texts))
        except (msgspec.DecodeError, msgspec.ValidationError):
            # A row of 16 MB, whose JSON the server gave up. It is refused later, by its name.
            return connection.execute(statement, parameters).all()

    def insert_executions(
        self, connection: sa.Connection, wanted: Sequence[Execution]
    ) -> list[int]:
        """Insert them with `inserts`, and read back what is newer than before.

        A newer row with one of our keys that we did not insert was committed meanwhile; the
        transaction is repeated.
        """
        before = connection.scalars(_NEWEST).one()
        hurry = _HURRY if hurries(connection) else ""
        inserted = sum(
            connection.exec_driver_sql(hurry + statement, parameters).rowcount
            for statement, parameters in inserts([new_values(one) for one in wanted])
        )
        newer = connection.exec_driver_sql(_NEWER, (before,)).scalars()
        asked = {(one.scheduler_id, one.key) for one in wanted}
        found = {(scheduler_id, key): id_ for id_, scheduler_id, key in map(as_list, newer)}
        ids = {key: id_ for key, id_ in found.items() if key in asked}
        if len(ids) != inserted:
            raise TransactionRolledBack("somebody else claimed the same in this very moment")
        return [ids.pop((one.scheduler_id, one.key), 0) for one in wanted]

    def succeed(
        self,
        connection: sa.Connection,
        ends: Sequence[tuple[Any, ...]],
        *,
        now: datetime,
        node: str,
    ) -> int:
        """Write both tables at once. Where no UPDATE can but wait, the rows are locked before."""
        if not cast(Any, connection.dialect).is_mariadb:
            free = connection.scalars(_UNLOCKED, {"ids": [end[0] for end in ends]}).all()
            if len(free) < len(ends):
                return 0
        return super().succeed(connection, ends, now=now, node=node) // 2  # of each table one row

    def keep_outputs(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        connection.execute(REPLACE, rows)

    def product(self, connection: sa.Connection) -> tuple[str, Requirements]:
        name = "MariaDB" if cast("Any", connection.dialect).is_mariadb else "MySQL"
        return name, REQUIREMENTS[name]

    def take_turn(self, connection: sa.Connection) -> None:
        """Take a lock of the server's for this schema; it goes with the connection."""
        connection.exec_driver_sql("SET innodb_lock_wait_timeout = 60, lock_wait_timeout = 60")
        lock = f"cronhare-{sha256(self.sessions.server.database.encode()).hexdigest()[:32]}"
        if connection.scalar(sa.select(sa.func.get_lock(lock, MIGRATION_SECONDS))) != 1:
            raise LedgerUnavailable("another process has been upgrading this schema for hours")

    def prepare_adoption(self, connection: sa.Connection) -> None:
        """DDL commits by itself here: each step may find itself done."""
        for constraint in connection.scalars(_REFERENCES).all():
            connection.exec_driver_sql(
                f"ALTER TABLE `SchedulerExecution` DROP FOREIGN KEY `{constraint}`"
            )
        for table in _ADOPTED:
            columns = connection.execute(_COLUMNS, {"name": table}).all()
            if any(column.charset not in (None, "utf8mb4") for column in columns):
                connection.exec_driver_sql(
                    f"ALTER TABLE `{table}` CONVERT TO CHARACTER SET utf8mb4 COLLATE {COLLATION}"
                )
                columns = connection.execute(_COLUMNS, {"name": table}).all()
            for column in columns:
                if change := _change(column):
                    alter = f"ALTER TABLE `{table}` MODIFY `{column.name}` {change}"
                    connection.exec_driver_sql(alter)
        _keep_up_times_of_their_own(connection)

    def execution_id_type(self, connection: sa.Connection) -> TypeEngine[Any]:
        rows = connection.execute(_COLUMNS, {"name": "SchedulerExecution"})
        kind = next(row.full_type for row in rows if row.name == "id")
        made = mysql.INTEGER if kind.startswith("int") else mysql.BIGINT
        return made(unsigned="unsigned" in kind)

    def create_timestamp_triggers(self, connection: sa.Connection, editable: Sequence[str]) -> None:
        """The columns do so by themselves, at any UPDATE; ours keep them where it is no edit."""

    def facts(self, connection: sa.Connection) -> DatabaseFacts:
        ours = {name.lower() for name in metadata.tables}
        plain = (
            name
            for name, engine in connection.execute(_ENGINES)
            if name.lower() in ours and engine != "InnoDB"
        )
        return attrs.evolve(super().facts(connection), plain_tables=tuple(plain))

    def link(self, connection: sa.Connection) -> Link:
        session: Any = connection.connection.dbapi_connection
        [(_, version)] = connection.execute(text("SHOW SESSION STATUS LIKE 'Ssl_version'"))
        context = getattr(session, "ctx", None)
        host = Host(str(session.host), int(session.port))
        return Link(
            host=str(host),
            local=bool(session.unix_socket) or host.is_local,
            tls=str(version) or None,
            verified=bool(version) and context is not None and context.check_hostname,
        )
