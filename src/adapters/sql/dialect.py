"""What differs from one database to the next: its statements, errors, types, tables and facts.

All other statements are SQLAlchemy Core and read the same everywhere; SQLite, where a writer is
alone, leaves their FOR UPDATE out. A new database joins by one more folder beside this file, with a
`Dialect`, its `Schema` and its `Columns`; by its place in the list of `dialects`; and by the
schemes of its URLs in `cronhare.domain.addresses`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

import attrs
import msgspec
from sqlalchemy import Column, Connection, Engine, Row, Select, Update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.types import TypeEngine

from cronhare.domain.diagnosis import Cause, DatabaseFacts, LedgerFacts
from cronhare.domain.execution import Execution
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerUnavailable

from .cooldown import Cooldown

_OPTION = "cronhare_dialect"
_PASSED_OVER = "cronhare_passed_over"

UPGRADE = "run `cronhare db upgrade`"

#: Gives a connection to read from.
Connecting = Callable[[], AbstractContextManager[Connection]]


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """A plan to be written. *planned_at* is the schedule's `updated_at`, exactly as it was read."""

    scheduler_id: int
    next_due_at: datetime | None
    planned_at: object
    problem: str | None
    judged_by: str | None
    resume_at: datetime | None


class TransactionRolledBack(LedgerUnavailable):
    """The database took a whole transaction back: the call can be repeated at once.

    *is_refusal* says that it may be refused for ever: see `LedgerRefused`.
    """

    def __init__(
        self, text: str, *, is_refusal: bool = False, changed_nothing: bool = False
    ) -> None:
        """Say what was under way, and what the database said.

        At its COMMIT a cluster may say so of what it kept: see `LedgerUnavailable`.
        """
        self.is_refusal = is_refusal
        super().__init__(text, changed_nothing=changed_nothing)


class Locked(TransactionRolledBack):
    """It was taken back because somebody else held what it needs for longer than it waited."""


class InDoubt(LedgerUnavailable):
    """It looks like an outage, and a trigger may say so of one row alone: nothing was written.

    A neighbour that can be written tells.
    """


@attrs.frozen(kw_only=True)
class Columns:
    """The types of one database's columns.

    *id* is of numbers that the database gives; *moment* keeps UTC with microseconds; *flag* is a
    yes or no, which people write as 1 or 0; *text* has any length. *string* makes the type of a
    text of so many letters at most. Two texts are equal if every letter is. *reads_moments* says
    that the driver gives moments in UTC by itself.
    """

    id: TypeEngine[Any]
    moment: TypeEngine[Any]
    flag: TypeEngine[Any]
    text: TypeEngine[Any]
    string: Callable[[int], TypeEngine[Any]]
    reads_moments: bool


class Schema(Protocol):
    """How tables are made, taken over and kept up. Migrations ask, and are the same everywhere."""

    @property
    def resumes(self) -> bool:
        """Whether each step commits by itself, so that one that was cut off is gone on with."""
        ...

    @property
    def refers_to_schedules(self) -> bool:
        """Whether executions and plans refer to their schedules by foreign keys.

        Not where each claim would lock its schedule's row, and wait for whoever edits it: a person
        who leaves a transaction open would stop everything. A plan without a schedule is dropped
        when it is found, and history may outlive its schedule.
        """
        ...

    @property
    def has_partial_indexes(self) -> bool:
        """Whether an index may be of some rows alone."""
        ...

    def prepare_adoption(self, connection: Connection) -> None:
        """Let tables that were here before keep what ours keep. They stay usable meanwhile."""
        ...

    def id_of_executions(self, connection: Connection) -> TypeEngine[Any]:
        """Tell the type of executions' ids: an adopted table keeps its own; ours refer to it."""
        ...

    def kept_up_columns(self) -> list[Column[Any]]:
        """Give created_at and updated_at, as the database can keep them up in rows of people."""
        ...

    def keep_up_times(self, connection: Connection) -> None:
        """Make the triggers that keep them up, where they are needed."""
        ...

    def keep_up_updates(self, connection: Connection, editable: Sequence[str]) -> None:
        """Let an UPDATE of these columns count as an edit, and none of anything else."""
        ...


class ErrorCauses(Protocol):
    """What the errors of one kind of database mean."""

    def is_undone(self, error: SQLAlchemyError, *, committing: bool, elsewhere: bool) -> bool:
        """Tell an error after which nothing of its transaction remains, and that may pass.

        *committing* says that the transaction's end was asked for before, *elsewhere* that the next
        session may be with another host, where what this one refuses is possible.
        """
        ...

    def is_locked(self, error: SQLAlchemyError) -> bool:
        """Tell the error of a statement that has waited in vain for what others hold."""
        ...

    def is_refused(self, error: SQLAlchemyError, *, writing: bool) -> bool:
        """Tell an error that is the fault of the values: a constraint, a type, a trigger.

        A trigger may fail with any number that there is. So while *writing* it is all but the loss
        of a connection, what was taken back, and what `is_in_doubt`.
        """
        ...

    def is_in_doubt(self, error: SQLAlchemyError) -> bool:
        """Tell the error of a statement that looks like an outage, but may be a trigger's.

        A database that only reads, is full or keeps us out: it may be another table that does.
        """
        ...

    def explain(self, error: SQLAlchemyError) -> str:
        """Say what an error means, and what to do."""
        ...

    def is_missing(self, error: SQLAlchemyError) -> bool:
        """Tell an error which means that a table or a column is missing: see `fits`."""
        ...


class Dialect(Protocol):
    """One kind of database."""

    @property
    def schema(self) -> Schema:
        """How its tables are made."""
        ...

    @property
    def causes(self) -> ErrorCauses:
        """What its errors mean."""
        ...

    @property
    def elsewhere(self) -> bool:
        """Whether there are other hosts, where what one refuses may be possible."""
        ...

    def absence(self) -> LedgerFacts | None:
        """Tell what is known of a ledger of which there is nothing yet that could be asked."""
        ...

    def facts(self, connection: Connection) -> DatabaseFacts:
        """Tell what the database says of itself, and what it must be."""
        ...

    def cause_of(self, error: BaseException | None) -> Cause:
        """Tell why it cannot be used, by the error that said so."""
        ...

    @property
    def place(self) -> str:
        """Where it is, as people are told: without user, password and options."""
        ...

    def now(self, clock: ClockPort, connect: Connecting) -> datetime:
        """Tell the one time that decides what is due and what has lapsed."""
        ...

    def writing(self) -> AbstractContextManager[object]:
        """Give what a transaction that writes holds around it within this process."""
        ...

    def begin(self, connection: Connection) -> None:
        """Begin a transaction that writes."""
        ...

    def waiting_for_locks(
        self, connection: Connection, seconds: int
    ) -> AbstractContextManager[object]:
        """Have statements wait for so long for what others hold, or as short as can be.

        A database that knows one writer at a time has nothing to wait for.
        """
        ...

    def read(
        self, connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        """Execute a SELECT that finds many wide rows.

        They are tuples, and have their columns as attributes as well.
        """
        ...

    def uncommitted(
        self, connect: Connecting, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        """Execute a SELECT that finds what others have not committed yet; alone, there is none."""
        ...

    def insert_executions(self, connection: Connection, wanted: Sequence[Execution]) -> list[int]:
        """Insert executions whose keys are not taken, in this order; their own ids are ignored.

        Answers the new id of each; 0 for a key that was taken, by whomever.
        """
        ...

    def set_plans(self, connection: Connection, rows: Sequence[PlanRow]) -> None:
        """Insert or replace plans."""
        ...

    def keep_outputs(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or replace rows of what attempts wrote. There is one at least."""
        ...

    def update_many(
        self, connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Execute an UPDATE once for each row of parameters, or to the same effect."""
        ...

    def migrating(self, engine: Engine) -> AbstractContextManager[Connection]:
        """Give a connection to migrate on, to one process at a time; commits at the end."""
        ...


def remember(engine: Engine, dialect: Dialect) -> Engine:
    """Give the engine with what all adapters on it share: its dialect, and what is passed over."""
    return engine.execution_options(**{_OPTION: dialect, _PASSED_OVER: Cooldown()})


def dialect_of(engine: Engine) -> Dialect:
    """Find the dialect of an engine that `open_engine` made."""
    dialect: Dialect = engine.get_execution_options()[_OPTION]
    return dialect


def schema_on(connection: Connection) -> Schema:
    """Find how tables are made over a connection of such an engine."""
    return dialect_of(connection.engine).schema


def passed_over_of(engine: Engine) -> Cooldown:
    """Find the executions that are passed over on an engine that `open_engine` made."""
    passed_over: Cooldown = engine.get_execution_options()[_PASSED_OVER]
    return passed_over
