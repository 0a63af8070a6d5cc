"""The seam between databases: what a `Dialect` must know that SQLAlchemy does not.

A database is a file in `dialects`: types of columns, how tables are adopted, transactions,
statements of its own, facts for `cronhare doctor`. A server has another file, for its sessions and
what its errors mean; SQLite has one for the ledger's file. `dialects/servers.py` has what all
servers share, `dialects/batches.py` how many rows become one statement. A new database is such
files, its URLs in `cronhare.adapters.addresses`, and a parameter of the contract suites in
`tests/integration`.

All other statements are SQLAlchemy Core, the same for all; SQLite, which has one writer at a time,
leaves out their FOR UPDATE.
"""

import enum
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
from sqlalchemy import Column, ColumnElement, Connection, Engine, Row, Select, Update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.types import TypeEngine

from cronhare.domain.retries.policy import REST
from cronhare.ports import LedgerUnavailable
from cronhare.ports.system import ClockPort

if TYPE_CHECKING:
    # Here: only `doctor` diagnoses.
    from cronhare.domain.execution import Execution
    from cronhare.ports.inspection import Cause, DatabaseFacts, LedgerFacts

_OPTION = "cronhare_dialect"
_PASSED_OVER = "cronhare_passed_over"

UPGRADE = "run `cronhare db upgrade`"

#: Gives a connection to read from.
Connect = Callable[[], AbstractContextManager[Connection]]


# Tables


@attrs.frozen(kw_only=True)
class Columns:
    """The types of one database's columns, and what else its tables are made of.

    *id* takes numbers that the database gives; *moment* keeps UTC with microseconds; *flag* is 1 or
    0; *text* has any length; *string* makes the type of a text with a largest length. Texts compare
    letter by letter. *reads_moments*: the driver reads moments as UTC by itself. *check* gives the
    CHECK that keeps other types out of a column, where it takes any.
    """

    id: TypeEngine[Any]
    moment: TypeEngine[Any]
    flag: TypeEngine[Any]
    text: TypeEngine[Any]
    string: Callable[[int], TypeEngine[Any]]
    reads_moments: bool
    check: Callable[[Column[Any]], str | None] = lambda _: None

    #: The type and defaults of `created_at` and `updated_at` in the table that people write.
    kept_up: TypeEngine[Any]
    created_at: str
    updated_at: str

    #: Whether executions and plans refer to their schedules by foreign keys. Not on a server: each
    #: claim would lock its schedule's row, and a person who leaves an edit open would stop
    #: everything. A plan without a schedule is dropped when it is found.
    references_schedules: bool = False

    #: Whether an index may cover some of the rows only.
    has_partial_indexes: bool = True

    #: Whether an index orders rows that are equal in it by their ids.
    indexes_end_with_ids: bool = True


# Errors


class TransactionRolledBack(LedgerUnavailable):
    """The database rolled a whole transaction back: the call can be repeated at once.

    *is_refusal*: it may fail for ever, see `LedgerRefused`. A cluster may say so at the COMMIT of
    what it kept after all: for *changed_nothing* see `LedgerUnavailable`.
    """

    def __init__(
        self, text: str, *, is_refusal: bool = False, changed_nothing: bool = False
    ) -> None:
        self.is_refusal = is_refusal
        super().__init__(text, changed_nothing=changed_nothing)


class Locked(TransactionRolledBack):
    """It was rolled back because others kept rows locked for longer than it waited."""


class StatementFailed(LedgerUnavailable):
    """A statement failed on a living connection, and nothing was written.

    It is an outage, or the fault of one row: whether other rows can be written tells the two apart.
    """


class Meaning(enum.Enum):
    """What an error says about its transaction, and about a repetition.

    Nothing remains of the transaction, unless its connection was `LOST` at the COMMIT.
    """

    TAKEN_BACK = "it was rolled back: the same call may succeed the next time"
    LOCKED = "others kept rows locked for longer than it waited"
    DUPLICATE = "somebody wrote the same key in this moment, or it is refused for ever"
    LOST = "the connection is gone"
    NO_WRITES = "this host takes no writes now: the next session may find one that does"
    REFUSED = "a constraint, a type or a trigger refuses the values"
    FAILED = "the statement failed on a living connection: an outage, or the fault of one row"
    MISSING = "there is no such table or column"
    OUTAGE = "no row is at fault: a disk is full, the login is refused, nobody answers"


class Errors(Protocol):
    """What the errors of one kind of database mean."""

    def meaning_of(self, error: BaseException | None) -> Meaning:
        """Tell what an error of SQLAlchemy's or of the driver's means."""

    def cause_of(self, error: BaseException | None) -> "tuple[Cause, str]":
        """Tell why the database cannot be used, and the statements that mend it, if any."""

    def explain(self, error: SQLAlchemyError) -> str:
        """Say what an error means, and what to do."""


# Statements


class Dialect(Protocol):
    """One kind of database."""

    @property
    def errors(self) -> Errors:
        """What its errors mean."""

    @property
    def place(self) -> str:
        """Where it is, without user, password and options."""

    # Transactions

    def write_lock(self) -> AbstractContextManager[object]:
        """Give the lock of this process's writers. It is taken before a connection is.

        So threads that wait for it hold no connection.
        """

    def begin(self, connection: Connection) -> None:
        """Begin a transaction that writes."""

    def autocommitting(self, engine: Engine) -> Engine | None:
        """Give an engine whose statements are transactions; None where that is no faster.

        It is disposed of with this one.
        """

    def now(self, clock: ClockPort, connect: Connect) -> datetime:
        """Give the one time that decides what is due and what has lapsed."""

    # Statements that differ, or are too slow as SQLAlchemy writes them

    def read(
        self, connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        """Execute a SELECT that finds many wide rows. They are named tuples."""

    def insert_executions(self, connection: Connection, wanted: "Sequence[Execution]") -> list[int]:
        """Insert executions whose keys are not taken; their own ids are ignored.

        Answers their new ids, in order; 0 for a key that was taken. A connection that `hurries`
        waits for no lock, where that can be.
        """

    def set_plans(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert or replace plans: values of `PLAN_COLUMNS`, by rising ids: else two deadlock."""

    def keep_outputs(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or replace rows of what attempts wrote; at least one."""

    def succeed(
        self, connection: Connection, ends: Sequence[tuple[Any, ...]], *, now: datetime, node: str
    ) -> int:
        """End first attempts that succeeded, with their executions, and wait for no lock.

        *ends* are values of `SUCCESS`. Answers how many *node* has run until now, and nobody has
        asked to cancel; if these are not all, the caller takes it back.
        """

    def update_many(
        self, connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Execute an UPDATE for each row of parameters, or to the same effect."""

    # Administration

    def prepare_adoption(self, connection: Connection) -> None:
        """Change adopted tables so that they can hold our values. They stay usable meanwhile."""

    def execution_id_type(self, connection: Connection) -> TypeEngine[Any]:
        """Give the type of executions' ids, to which our tables refer; adopted ones keep theirs."""

    def create_timestamp_triggers(self, connection: Connection, editable: Sequence[str]) -> None:
        """Let an UPDATE of these columns by people, and no other, set updated_at."""

    def migrating(self, engine: Engine) -> AbstractContextManager[Connection]:
        """Give a connection to migrate on, to one process at a time, and commit at the end."""

    def missing(self) -> "LedgerFacts | None":
        """Say what is known of a ledger that is not there yet; None if it can be asked."""

    def facts(self, connection: Connection) -> "DatabaseFacts":
        """Tell what the database says of itself, and what it must be."""


# Rows that were refused or locked a moment ago rest: they are not asked for again for a while

#: The most rows to remember. A statement names them all, and SQLite takes 32,766.
MOST: Final = 10_000


class Cooldown:
    """Ids or keys of rows of one table that rest, in this process. For any thread."""

    def __init__(self, rest: timedelta = REST) -> None:
        self._rest = rest
        self._lock = Lock()
        self._until: dict[Any, datetime] = {}

    def note(self, id_: Hashable, now: datetime) -> None:
        """Let a row rest; without room the oldest is dropped."""
        with self._lock:
            self._until.pop(id_, None)
            if len(self._until) >= MOST:
                del self._until[next(iter(self._until))]
            self._until[id_] = now + self._rest

    def at(self, now: datetime) -> Collection[Any]:
        """Give those that rest at *now*; nearly always there are none."""
        if not self._until:
            return ()
        with self._lock:
            self._until = {
                id_: until
                for id_, until in self._until.items()
                if timedelta(0) < until - now <= self._rest  # a clock may be set back
            }
            return frozenset(self._until)


def excluding(
    statement: Select[Any], id_: ColumnElement[int], passed_over: Collection[int]
) -> Select[Any]:
    """Let a SELECT leave out what is passed over; nearly always it stays as it is."""
    return statement.where(id_.not_in(sorted(passed_over))) if passed_over else statement


# Engines


def with_dialect(engine: Engine, dialect: Dialect) -> Engine:
    """Attach what all adapters on an engine share: its dialect, and what is passed over."""
    return engine.execution_options(**{_OPTION: dialect, _PASSED_OVER: Cooldown()})


def dialect_of(bind: Engine | Connection) -> Dialect:
    dialect: Dialect = bind.get_execution_options()[_OPTION]
    return dialect


def hurry(connection: Connection) -> None:
    """Let a connection insert executions without waiting for locks, until it is closed."""
    connection.execution_options(cronhare_hurries=True)


def hurries(connection: Connection) -> bool:
    return "cronhare_hurries" in connection.get_execution_options()


def passed_over_of(engine: Engine) -> Cooldown:
    passed_over: Cooldown = engine.get_execution_options()[_PASSED_OVER]
    return passed_over
