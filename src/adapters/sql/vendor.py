"""What differs from one database to the next, in one small object.

All other statements are SQLAlchemy Core and read the same everywhere. A new database joins by one
more `Vendor`, by its column types in `types.py`, and by its triggers in the migrations.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

import attrs
from sqlalchemy import Connection, Engine, Select
from sqlalchemy.exc import SQLAlchemyError

from cronhare.domain.execution import Execution
from cronhare.ports.clock import ClockPort

_OPTION = "cronhare_vendor"


@attrs.frozen(kw_only=True)
class PlanRow:
    """A plan to be written. *planned_at* is the schedule's `updated_at`, exactly as it was read."""

    scheduler_id: int
    next_due_at: datetime | None
    planned_at: object
    problem: str | None


class Vendor(Protocol):
    """One kind of database."""

    def now(self, clock: ClockPort) -> datetime:
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

    def insert_executions(self, connection: Connection, wanted: Sequence[Execution]) -> list[int]:
        """Insert executions whose keys are not taken, in this order; their own ids are ignored.

        Answers the new id of each; 0 for a key that was taken, by whomever.
        """
        ...

    def set_plans(self, connection: Connection, rows: Sequence[PlanRow]) -> None:
        """Insert or replace plans."""
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
