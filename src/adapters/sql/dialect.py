"""The seam between databases: what a `Dialect` must know that SQLAlchemy does not.

A database is a folder in `dialects`: `schema` (types of columns, how tables are made and adopted),
`errors` (what a failure means), `dialect` (transactions, statements of its own, facts for `cronhare
doctor`), and for a server `sessions`. `dialects/server.py` and `dialects/sessions.py` have what all
servers share, `dialects/batches.py` how many rows become one statement. A new one is added in
`dialects/__init__.py`, in `cronhare.domain.addresses` with the schemes of its URLs, and as a
parameter of the contract suites in `tests/integration`.

All other statements are SQLAlchemy Core and read the same everywhere; SQLite, where a writer is
alone, leaves their FOR UPDATE out.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import msgspec
from sqlalchemy import Column, ColumnElement, Connection, Engine, Row, Select, Update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.types import TypeEngine

from cronhare.ports.errors import LedgerUnavailable
from cronhare.ports.system import ClockPort

from .cooldown import Cooldown

if TYPE_CHECKING:
    # Here: only `doctor` diagnoses.
    from cronhare.domain.diagnosis.database import DatabaseFacts
    from cronhare.domain.diagnosis.ledger import LedgerFacts
    from cronhare.domain.diagnosis.servers import Cause
    from cronhare.domain.execution import Execution

_OPTION = "cronhare_dialect"
_PASSED_OVER = "cronhare_passed_over"

UPGRADE = "run `cronhare db upgrade`"

#: Gives a connection to read from.
Connect = Callable[[], AbstractContextManager[Connection]]


# Tables


@attrs.frozen(kw_only=True)
class Columns:
    """The types of one database's columns.

    *id* is of numbers that the database gives; *moment* keeps UTC with microseconds; *flag* is a
    yes or no, which people write as 1 or 0; *text* has any length. *string* makes the type of a
    text of at most so many letters. Two texts are equal if every letter is. *reads_moments* says
    that the driver gives moments in UTC by itself.
    """

    id: TypeEngine[Any]
    moment: TypeEngine[Any]
    flag: TypeEngine[Any]
    text: TypeEngine[Any]
    string: Callable[[int], TypeEngine[Any]]
    reads_moments: bool


class Schema(Protocol):
    """How tables are made and adopted. Migrations ask, and are the same everywhere."""

    @property
    def references_schedules(self) -> bool:
        """Whether executions and plans refer to their schedules by foreign keys.

        Not where each claim would lock its schedule's row, and wait for an edit of it: a person
        who leaves a transaction open would stop everything. A plan without a schedule is dropped
        when it is found, and history may outlive its schedule.
        """

    @property
    def has_partial_indexes(self) -> bool:
        """Whether an index may be of some rows alone."""

    @property
    def indexes_end_with_ids(self) -> bool:
        """Whether rows that an index takes for equal are in the order of their ids there."""

    def prepare_adoption(self, connection: Connection) -> None:
        """Let adopted tables keep all that ours keep. They stay usable meanwhile."""

    def execution_id_type(self, connection: Connection) -> TypeEngine[Any]:
        """Give the type of executions' ids: an adopted table keeps its own; ours refer to it."""

    def timestamp_columns(self) -> list[Column[Any]]:
        """Give created_at and updated_at, as the database can keep them up in rows of people."""

    def type_check(self, column: Column[Any]) -> str | None:
        """Give the condition that keeps other types out, where a column takes any."""

    def create_timestamp_triggers(self, connection: Connection, editable: Sequence[str]) -> None:
        """Let an UPDATE of these columns by people count as an edit, and none of anything else."""


# Errors


class TransactionRolledBack(LedgerUnavailable):
    """The database took a whole transaction back: the call can be repeated at once.

    *is_refusal* says that it may be refused for ever: see `LedgerRefused`.
    """

    def __init__(
        self, text: str, *, is_refusal: bool = False, changed_nothing: bool = False
    ) -> None:
        """*text* says what was under way, and what the database said.

        At its COMMIT a cluster may say so of what it kept: see `LedgerUnavailable`.
        """
        self.is_refusal = is_refusal
        super().__init__(text, changed_nothing=changed_nothing)


class Locked(TransactionRolledBack):
    """It was taken back because others held what it needs for longer than it waited."""


class StatementFailed(LedgerUnavailable):
    """An outage, or the fault of one row: nothing was written, and the connection is there.

    Whether a neighbour can be written tells the two apart.
    """


class Meaning(enum.Enum):
    """What an error of a database says about the transaction that met it, and about a repetition.

    Nothing remains of that transaction, except after one that is `LOST` at its COMMIT.
    """

    TAKEN_BACK = "the same call may do the next time"
    LOCKED = "it has waited in vain for what others hold"
    DUPLICATE = "somebody has written the same in this moment, or it is refused for ever"
    LOST = "the connection is of no use any more"
    READ_ONLY = "this host takes no writes"
    REFUSED = "a constraint, a type or a trigger refuses the values"
    FAILED = "the statement failed on a living connection: an outage, or the fault of one row"
    MISSING = "there is no such table or column"
    OUTAGE = "it is no row's fault: it is full, or keeps us out, or nobody answers"


class Errors(Protocol):
    """What the errors of one kind of database mean. A module will do."""

    def meaning_of(self, error: SQLAlchemyError) -> Meaning:
        """Tell what an error means."""
        ...

    def cause_of(self, error: BaseException | None) -> "Cause":
        """Tell why the database cannot be used."""

    def hint(self, cause: "Cause") -> str:
        """Give the statements that do something about a cause; empty for none."""
        ...

    def explain(self, error: SQLAlchemyError) -> str:
        """Say what an error means, and what to do."""


# Statements


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """A plan to be written. *planned_at* is the schedule's `updated_at`, exactly as it was read."""

    scheduler_id: int
    next_due_at: datetime | None
    planned_at: object
    problem: str | None
    judged_by: str | None
    resume_at: datetime | None
    idle: str | None


class Dialect(Protocol):
    """One kind of database."""

    @property
    def schema(self) -> Schema:
        """How its tables are made."""

    @property
    def errors(self) -> Errors:
        """What its errors mean."""

    @property
    def place(self) -> str:
        """Where it is, as people are told: without user, password and options."""

    # Transactions

    def write_lock(self) -> AbstractContextManager[object]:
        """Give what keeps this process's writers apart. It is held before there is a connection.

        So threads that wait for their turn keep no connection from others.
        """

    def begin(self, connection: Connection) -> None:
        """Begin a transaction that writes."""

    def meaning_of(self, error: SQLAlchemyError) -> Meaning:
        """Tell what an error means where this database is: see `Errors.meaning_of`."""
        ...

    def now(self, clock: ClockPort, connect: Connect) -> datetime:
        """Give the one time that decides what is due and what has lapsed."""

    # Statements that are not the same everywhere, or too slow as SQLAlchemy writes them

    def read(
        self, connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        """Execute a SELECT that finds many wide rows.

        They are tuples, and have their columns as attributes as well.
        """

    def insert_executions(self, connection: Connection, wanted: "Sequence[Execution]") -> list[int]:
        """Insert executions whose keys are not taken, in this order; their own ids are ignored.

        Answers the new id of each; 0 for a key that was taken, by whomever.
        """

    def set_plans(self, connection: Connection, rows: Sequence[PlanRow]) -> None:
        """Insert or replace plans."""

    def keep_outputs(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or replace rows of what attempts wrote. There is one at least."""

    def update_many(
        self, connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Execute an UPDATE once for each row of parameters, or to the same effect."""

    def position(self, text: ColumnElement[str], part: str) -> ColumnElement[int]:
        """Find a part of a text, letter for letter, from 1 on; 0 if it has none.

        LIKE ignores case in some.
        """

    # Administration

    def migrating(self, engine: Engine) -> AbstractContextManager[Connection]:
        """Give a connection to migrate on, to one process at a time; commits at the end."""

    def missing(self) -> "LedgerFacts | None":
        """Tell what is known of a ledger that is not there yet; None if it can be asked."""

    def facts(self, connection: Connection) -> "DatabaseFacts":
        """Tell what the database says of itself, and what it must be."""


# Engines


def with_dialect(engine: Engine, dialect: Dialect) -> Engine:
    """Give the engine with what all adapters on it share: its dialect, and what is passed over."""
    return engine.execution_options(**{_OPTION: dialect, _PASSED_OVER: Cooldown()})


def dialect_of(engine: Engine) -> Dialect:
    """Find the dialect of an engine that `open_engine` made."""
    dialect: Dialect = engine.get_execution_options()[_OPTION]
    return dialect


def passed_over_of(engine: Engine) -> Cooldown:
    """Find the executions that are passed over on an engine that `open_engine` made."""
    passed_over: Cooldown = engine.get_execution_options()[_PASSED_OVER]
    return passed_over
