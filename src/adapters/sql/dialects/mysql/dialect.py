"""MySQL 8.0 and MariaDB 10.6, or newer: any number of hosts. InnoDB's row locks keep them apart."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, Select, Update, event, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from cronhare.domain.addresses import LedgerServer
from cronhare.domain.diagnosis import Cause, DatabaseFacts
from cronhare.domain.execution import Execution
from cronhare.domain.messages.messages import LARGEST_ID
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerUnavailable

from ...dialect import Connecting, Locked, PlanRow, TransactionRolledBack, remember
from ...mapping.execution_rows import moment_text, new_values
from ...mapping.outputs import REPLACE
from ...schema.tables import executions, plans
from ...schema.types import to_text
from ...transactions.lock_waits import waits_for_no_lock
from ..batches import parameters_of
from . import errors, reading
from .facts import CAUSES, facts_of
from .inserts import inserts
from .migrating import migrating
from .reading import as_list
from .rows import Rows, source_of, update_from_rows, value_of
from .schema import MysqlSchema
from .sessions import LOCK_SECONDS, Sessions

_NOW: Final = select(text("UTC_TIMESTAMP(6)"))
_NEWER: Final = (  # as JSON: see mysql_reading
    "SELECT JSON_ARRAY(id, scheduler_id, execution_key) FROM `SchedulerExecution` WHERE id > %s"
)
_IS_NUMBERED_OUT: Final = text(
    "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() "
    "AND table_name = :name AND auto_increment >= :last"
)
_WAIT_FOR_LOCKS: Final = "SET innodb_lock_wait_timeout = "
_PASSING_OVER: Final = "SKIP LOCKED"
_NEWEST: Final = select(func.coalesce(func.max(executions.c.id), 0))
_PLAN: Final = {
    name: plans.c[name].type
    for name in (
        "scheduler_id", "next_due_at", "planned_at", "problem", "judged_by", "resume_at"
    )
}  # fmt: skip


def open_engine(server: LedgerServer) -> Engine:
    """Make the engine for a database on one of several servers. Connects to nothing yet.

    Raises:
        ValueError: its certificates cannot be read.
    """
    sessions = Sessions(server)
    return remember(sessions.pooled(), MysqlDialect(sessions))


class MysqlDialect:
    """Satisfies `Dialect`."""

    def __init__(self, sessions: Sessions) -> None:
        """*sessions* makes the connections, for migrations too."""
        self._sessions = sessions

    schema = MysqlSchema()
    causes = errors

    @property
    def elsewhere(self) -> bool:
        """See `Dialect.elsewhere`."""
        return self._sessions.elsewhere

    def absence(self) -> None:
        """There is a server to be asked, or nobody knows."""

    def facts(self, connection: Connection) -> DatabaseFacts:
        """See `Dialect.facts`."""
        return facts_of(connection)

    def cause_of(self, error: BaseException | None) -> Cause:
        """See `Dialect.cause_of`."""
        return CAUSES.get(errors.number_of(error), Cause.OTHER)

    @property
    def place(self) -> str:
        """See `Dialect.place`."""
        return str(self._sessions.server)

    def now(self, clock: ClockPort, connect: Connecting) -> datetime:  # noqa: ARG002
        """Ask the server: one clock for all hosts."""
        with connect() as connection:
            told: datetime = connection.execute(_NOW).scalar_one()
        return told

    def writing(self) -> AbstractContextManager[object]:
        """See `Dialect.writing`: the server keeps threads apart as it does hosts."""
        return nullcontext()

    def begin(self, connection: Connection) -> None:
        """The first statement begins the transaction: the driver does not commit by itself."""

    @contextmanager
    def waiting_for_locks(self, connection: Connection, seconds: int) -> Iterator[None]:
        """See `Dialect.waiting_for_locks`. Of 0 MySQL makes 1, with a warning."""
        waiting = _ShortWaits(seconds)
        event.listen(connection, "before_cursor_execute", waiting.before)
        try:
            yield
        except BaseException:
            with suppress(SQLAlchemyError):  # what came first counts
                waiting.end(connection)
            raise
        waiting.end(connection)

    def read(
        self, connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        """See `Dialect.read`."""
        return reading.read_rows(connection, statement, parameters)

    def uncommitted(
        self, connect: Connecting, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        """See `Dialect.uncommitted`. It holds for the next transaction of the session alone."""
        with connect() as connection:
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
            return connection.execute(statement, parameters).all()

    def insert_executions(self, connection: Connection, wanted: Sequence[Execution]) -> list[int]:
        """See `Dialect.insert_executions`.

        What is newer than the newest before has one of our keys and is not ours only if somebody
        committed it in between. Then fewer rows were inserted than are found, and the whole
        transaction is repeated: the next time it is among the older ones.
        """
        before = connection.scalar(_NEWEST)
        with _numbering(connection):
            inserted = sum(
                connection.exec_driver_sql(insert.text, insert.parameters).rowcount
                for insert in inserts([new_values(one) for one in wanted])
            )
        newer = connection.exec_driver_sql(_NEWER, (before,)).scalars()
        asked = {(one.scheduler_id, one.key) for one in wanted}
        found = {(scheduler_id, key): id_ for id_, scheduler_id, key in map(as_list, newer)}
        ids = {key: id_ for key, id_ in found.items() if key in asked}
        if len(ids) != inserted:
            raise TransactionRolledBack("somebody else claimed the same in this very moment")
        return [ids.pop((one.scheduler_id, one.key), 0) for one in wanted]

    def set_plans(self, connection: Connection, rows: Sequence[PlanRow]) -> None:
        """See `Dialect.set_plans`. In one order everywhere, so that replicas do not deadlock."""
        ordered = sorted(rows, key=lambda row: row.scheduler_id)
        values = [
            (
                row.scheduler_id,
                moment_text(row.next_due_at),
                _stamp(row.planned_at),
                row.problem,
                row.judged_by,
                moment_text(row.resume_at),
            )
            for row in ordered
        ]
        fresh = Rows.of(_PLAN, values)
        for parameters in fresh.parameters():
            connection.exec_driver_sql(_set_plans(fresh.differing), parameters)

    def keep_outputs(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """See `Dialect.keep_outputs`."""
        connection.execute(REPLACE, rows)

    def update_many(
        self, connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """See `Dialect.update_many`."""
        names = parameters_of(statement)
        fresh = Rows.of(names, [[row[name] for name in names] for row in rows])
        joined = update_from_rows(statement, fresh.differing)
        for parameters in fresh.parameters():
            connection.execute(joined, parameters)

    def migrating(self, engine: Engine) -> AbstractContextManager[Connection]:  # noqa: ARG002
        """See `Dialect.migrating`. DDL commits by itself here: what was cut off is gone on with."""
        return migrating(self._sessions, self)


class _ShortWaits:
    """The wait for locks of one transaction, short but for what passes over others' locks anyway.

    Where it waits not at all, MariaDB fails such a SELECT at the first lock that it meets (1180).
    """

    def __init__(self, seconds: int) -> None:
        self._short = seconds
        self._set = LOCK_SECONDS

    def before(self, connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        """Set the wait that a statement is to have; most have that of the one before."""
        seconds = LOCK_SECONDS if _PASSING_OVER in statement else self._short
        if seconds != self._set and not statement.startswith(_WAIT_FOR_LOCKS):
            self._set = seconds
            connection.exec_driver_sql(f"{_WAIT_FOR_LOCKS}{seconds}")

    def end(self, connection: Connection) -> None:
        """Give a session its own wait for locks back, or give the session up."""
        if self._set == LOCK_SECONDS or connection.invalidated:
            return
        try:
            connection.exec_driver_sql(f"{_WAIT_FOR_LOCKS}{LOCK_SECONDS}")
        except SQLAlchemyError:
            connection.invalidate()
            raise


@contextmanager
def _numbering(connection: Connection) -> Iterator[None]:
    """Tell apart why no number could be had: somebody inserts and waits; or there is none left.

    Whoever inserts many keeps all others from numbering theirs while he waits for somebody's gap.

    Raises:
        Undone: he does, and it can be repeated; or `Locked`, for those who wait for nothing.
        LedgerUnavailable: there is none left.
    """
    try:
        yield
    except SQLAlchemyError as error:
        number = errors.number_of(error)
        if number not in (errors.NO_NUMBER, errors.NO_NUMBER_LEFT):
            raise
        last = {"last": LARGEST_ID, "name": executions.name}
        if connection.execute(_IS_NUMBERED_OUT, last).scalar_one():
            text = errors.explain(error)
            raise LedgerUnavailable(text, changed_nothing=True) from error
        if number == errors.NO_NUMBER_LEFT:  # of somebody else's table
            raise
        text = f"somebody keeps others from inserting into {executions.name} ({error.args[0]})"
        raise (Locked if waits_for_no_lock() else TransactionRolledBack)(
            text, changed_nothing=True
        ) from error


@lru_cache(maxsize=64)
def _set_plans(differing: tuple[str, ...]) -> str:
    values = {name: value_of(name, differing) for name in _PLAN}
    changes = ", ".join(
        f"{name} = {value}" for name, value in values.items() if name != "scheduler_id"
    )
    return (
        f"INSERT INTO `SchedulerPlan` ({', '.join(_PLAN)}) "  # noqa: S608 - names of our own
        f"SELECT {', '.join(values.values())} FROM {source_of(_PLAN, differing)} "
        f"ON DUPLICATE KEY UPDATE {changes}"
    )


def _stamp(planned_at: object) -> object:
    """Write a schedule's updated_at as it was read: a time, or a text that is none."""
    return to_text(planned_at) if isinstance(planned_at, datetime) else planned_at
