"""Transactions: what is repeated, what is known after an error, the time, and old rows."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import cached_property, partial, wraps
from typing import Any, Final, ParamSpec, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Table, delete, select, tuple_, update
from sqlalchemy.exc import SQLAlchemyError

from cronhare.domain.retries.policy import Waits
from cronhare.ports import LedgerOutdated, LedgerRefused, LedgerUnavailable
from cronhare.ports.system import ClockPort

from .dialect import (
    UPGRADE,
    Dialect,
    Locked,
    Meaning,
    StatementFailed,
    TransactionRolledBack,
    dialect_of,
    passed_over_of,
)

P = ParamSpec("P")
T = TypeVar("T")

#: A call is repeated for so many seconds: its last try ends well before a lease of 30 s does.
REPEAT_FOR: Final = 5.0
_SHORTEST_WAIT: Final = 0.005
_LONGEST_WAIT: Final = 0.5

#: So often a duplicate key may be a race with another transaction; after that it is a refusal.
_MEETINGS: Final = 5

#: So many rows `change_some` takes in one transaction.
STEP: Final = 1_000


def repeatable(call: Callable[P, T]) -> Callable[P, T]:
    """Repeat a call whose transaction was rolled back: a deadlock, a lock, a lost connection.

    It repeats a port's method from its beginning, which all of them allow.
    """
    return _repeating(call, waits=True)


def repeatable_unless_locked(call: Callable[P, T]) -> Callable[P, T]:
    """Do so for one that can go on without what others keep locked: `Locked` is raised at once."""
    return _repeating(call, waits=False)


def _repeating(call: Callable[P, T], *, waits: bool) -> Callable[P, T]:
    @wraps(call)
    def insistent(*args: P.args, **kwargs: P.kwargs) -> T:
        give_up_at = time.monotonic() + REPEAT_FOR
        # Random, so that two that met do not meet again.
        pauses = Waits(_SHORTEST_WAIT, _LONGEST_WAIT, random.random)
        met = 0
        changed_nothing = True
        while True:
            try:
                return call(*args, **kwargs)
            except LedgerUnavailable as error:
                # What an earlier try may have written stays possible, whatever the next one meets.
                changed_nothing = changed_nothing and error.changed_nothing
                error.changed_nothing = changed_nothing
                is_locked = isinstance(error, Locked)
                if isinstance(error, Locked | StatementFailed) and not changed_nothing:
                    raise LedgerUnavailable(str(error)) from error
                if not isinstance(error, TransactionRolledBack) or (is_locked and not waits):
                    raise
                met += error.is_refusal and not is_locked
                if met > _MEETINGS:
                    raise LedgerRefused(str(error)) from error
                pause = pauses.next()
                if time.monotonic() + pause > give_up_at:
                    raise
            time.sleep(pause)

    return insistent


class Database:
    """An engine as the adapters use it."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """*engine* comes from `open_engine`; *clock* counts where the database has none."""
        self.dialect: Dialect = dialect_of(engine)
        self.passed_over = passed_over_of(engine)
        self._engine = engine
        self._clock = clock

    def now(self) -> datetime:
        return self.dialect.now(self._clock, partial(self.read, "asking for the time"))

    @contextmanager
    def read(self, doing: str) -> Iterator[Connection]:
        """Give a connection whose statements each see what is committed when they begin."""
        with connected(self._engine, doing) as connection, self._undone(doing):
            yield connection

    @contextmanager
    def write(self, doing: str) -> Iterator[Connection]:
        """Give a connection in a transaction that is committed at the end, or rolled back."""
        with (
            self.dialect.write_lock(),
            connected(self._engine, doing, writing=True) as connection,
            connection.begin(),
            self._undone(doing, writing=True),
        ):
            with translate_errors(self._engine, doing, begun=False, committing=False):
                self.dialect.begin(connection)
            yield connection

    @contextmanager
    def at_once(self, doing: str) -> Iterator[Connection]:
        """Give a connection whose single statements are committed as they are executed.

        For what can be repeated though it may have been written: that costs one round trip.
        """
        if self._autocommitting is None:
            with self.write(doing) as connection:
                yield connection
            return
        with connected(self._autocommitting, doing, writing=True) as connection:
            try:
                with self._undone(doing, writing=True):
                    yield connection
            except LedgerUnavailable as error:  # the statement before may be committed
                error.changed_nothing = isinstance(error, Locked)
                raise

    @cached_property
    def _autocommitting(self) -> Engine | None:
        return self.dialect.autocommitting(self._engine)

    def _undone(self, doing: str, *, writing: bool = False) -> AbstractContextManager[None]:
        return translate_errors(self._engine, doing, committing=False, writing=writing)


class StorePart:
    """Some methods of a store, which inherits from all of its parts."""

    def __init__(self, database: Database) -> None:
        self._database = database


class Store(StorePart):
    """A whole store, made on an engine."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        super().__init__(Database(engine, clock))


@contextmanager
def connected(engine: Engine, doing: str, *, writing: bool = False) -> Iterator[Connection]:
    """Give a connection, and turn a vendor's errors into ours: see `translate_errors`."""
    with translate_errors(engine, doing, begun=False):
        connection = connect(engine, doing)
    with translate_errors(engine, doing, writing=writing), connection:
        yield connection


def connect(engine: Engine, doing: str) -> Connection:
    """Connect to what may be anything: SQLAlchemy expects that a database answers."""
    try:
        return engine.connect()
    except (SQLAlchemyError, LedgerUnavailable, OverflowError, UnicodeError):
        raise
    except Exception as error:
        text = f"what answers there is not understood: {type(error).__name__}: {error}"
        raise LedgerUnavailable(f"{doing} in {dialect_of(engine).place}: {text}") from error


@contextmanager
def translate_errors(
    engine: Engine,
    doing: str,
    *,
    begun: bool = True,
    committing: bool = True,
    writing: bool = False,
) -> Iterator[None]:
    """Turn a vendor's errors into ours; *doing* says what was under way.

    *begun* says that a statement of ours may have failed: whatever keeps us from a session, with
    any number that there is, is an outage, and no fault of a row. *committing* says that a
    transaction's end may have been asked for, so that after a lost connection nobody knows what
    became of it; *writing*, that rows may be written, or refused.
    """
    changed_nothing = not (begun and committing and writing)
    try:
        yield
    except SQLAlchemyError as error:
        dialect = dialect_of(engine)
        said = dialect.errors.explain(error)
        text = f"{doing} in {dialect.place}: {said}"
        match dialect.errors.meaning_of(error):
            case Meaning.MISSING if begun and not committing:
                text = f"{doing} in {dialect.place}: its schema is not this program's ({said})"
                outdated = LedgerOutdated(f"{text}; {UPGRADE}", changed_nothing=changed_nothing)
                raise outdated from error
            case Meaning.LOCKED:
                raise Locked(text, changed_nothing=changed_nothing) from error
            case Meaning.TAKEN_BACK | Meaning.NO_WRITES | Meaning.DUPLICATE as meaning:
                is_refusal = begun and meaning is Meaning.DUPLICATE
                raise TransactionRolledBack(
                    text, is_refusal=is_refusal, changed_nothing=changed_nothing
                ) from error
            case Meaning.LOST if not committing:
                raise TransactionRolledBack(text, changed_nothing=changed_nothing) from error
            case Meaning.REFUSED if begun:
                raise LedgerRefused(text) from error
            case Meaning.FAILED if begun and writing and not committing:
                raise StatementFailed(text, changed_nothing=changed_nothing) from error
        raise LedgerUnavailable(text, changed_nothing=changed_nothing) from error
    except (OverflowError, UnicodeError) as error:  # a driver's, of what it cannot even send
        text = f"{doing}: {error}"
        if begun:
            raise LedgerRefused(text) from error
        raise LedgerUnavailable(text, changed_nothing=changed_nothing) from error


class LedgerTime(StorePart):
    """Tells the one time that decides what is due and what has lapsed."""

    @repeatable
    def now(self) -> datetime:
        return self._database.now()


class SqlLedgerTime(Store, LedgerTime):
    """The same by itself: a command that only asks for it loads no store."""


def change_some(
    connection: Connection,
    table: Table,
    which: ColumnElement[bool],
    new: Mapping[str, Any] | None = None,
) -> int:
    """Change or delete some of these rows, but none that another has locked; says how many."""
    unlocked = select(*table.primary_key).where(which).limit(STEP).with_for_update(skip_locked=True)
    found = connection.execute(unlocked).all()
    if found:
        change = delete(table) if new is None else update(table).values(new)
        connection.execute(change.where(tuple_(*table.primary_key).in_(map(tuple, found))))
    return len(found)


def forget(database: Database, table: Table, which: ColumnElement[bool]) -> None:
    """Delete all of these rows, step by step; what is locked goes another day."""

    @repeatable
    def step() -> int:
        with database.write(f"cleaning up {table.name}") as connection:
            return change_some(connection, table, which)

    while step() == STEP:
        pass
