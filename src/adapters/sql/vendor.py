"""What differs from one database to the next, in one small object.

All other statements are SQLAlchemy Core and read the same everywhere. A new database joins by one
more `Vendor`, by its column types in `types.py`, and by its ways in the migrations.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

import msgspec
from sqlalchemy import Connection, Engine, Row, Select, Update
from sqlalchemy.exc import SQLAlchemyError

from cronhare.domain.execution import Execution
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerUnavailable

_OPTION = "cronhare_vendor"

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


class Undone(LedgerUnavailable):
    """The database took a whole transaction back: the call can be repeated at once.

    *is_refusal* says that it may be refused for ever: see `LedgerRefused`.
    """

    def __init__(self, text: str, *, is_refusal: bool = False) -> None:
        """Say what was under way, and what the database said."""
        self.is_refusal = is_refusal
        super().__init__(text)


class Vendor(Protocol):
    """One kind of database."""

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

    def held(self, statement: Select[Any], *, pass_over: bool = False) -> Select[Any]:
        """Let a SELECT keep others from its rows until the commit.

        With *pass_over* it leaves out what others hold, rather than wait for them.
        """
        ...

    def read(
        self, connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        """Execute a SELECT that finds many wide rows.

        They are tuples, and have their columns as attributes as well.
        """
        ...

    def insert_executions(self, connection: Connection, wanted: Sequence[Execution]) -> list[int]:
        """Insert executions whose keys are not taken, in this order; their own ids are ignored.

        Answers the new id of each; 0 for a key that was taken, by whomever.
        """
        ...

    def set_plans(self, connection: Connection, rows: Sequence[PlanRow]) -> None:
        """Insert or replace plans."""
        ...

    def update_many(
        self, connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Execute an UPDATE once for each row of parameters, or to the same effect."""
        ...

    def migrating(self, engine: Engine) -> AbstractContextManager[Connection]:
        """Give a connection to migrate on, to one process at a time; commits at the end."""
        ...

    def is_undone(self, error: SQLAlchemyError, *, committing: bool) -> bool:
        """Tell an error after which nothing of its transaction remains, and that may pass.

        *committing* says that the transaction's end was asked for before.
        """
        ...

    def is_refused(self, error: SQLAlchemyError) -> bool:
        """Tell an error that is the fault of the values alone: a constraint, a type, a trigger."""
        ...

    def explain(self, error: SQLAlchemyError) -> str:
        """Say what an error means, and what to do."""
        ...

    def is_outdated(self, error: SQLAlchemyError) -> bool:
        """Tell an error which means that tables or columns of ours are missing."""
        ...


def remember(engine: Engine, vendor: Vendor) -> Engine:
    """Give the engine with its vendor, which all adapters on it share."""
    return engine.execution_options(**{_OPTION: vendor})


def vendor_of(engine: Engine) -> Vendor:
    """Find the vendor of an engine that `open_engine` made."""
    vendor: Vendor = engine.get_execution_options()[_OPTION]
    return vendor
