"""An engine, its transactions, and the one place where vendors' errors become ours."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial, wraps
from typing import Final, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from cronhare.domain.addresses import LedgerFile, parse_ledger
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerOutdated, LedgerRefused, LedgerUnavailable

from .vendor import UPGRADE, Undone, Vendor, vendor_of

P = ParamSpec("P")
T = TypeVar("T")

#: A call is repeated for so long: together with its last try it is over well before a lease is.
PATIENCE: Final = 5.0
_SHORTEST_WAIT: Final = 0.005
_LONGEST_WAIT: Final = 0.5

#: So often a duplicate may be what somebody else wrote in the same moment; then it stays one.
_MEETINGS: Final = 5


def open_engine(url: str) -> Engine:
    """Make the engine for a database URL. Connects to nothing yet, and makes nothing.

    `sqlite:///path`, or `mysql+pymysql://user:password@host/database`, which MariaDB has as well.

    Raises:
        ValueError: the URL is not one that the ledger can be kept at; its text shows no secret.
    """
    address = parse_ledger(url)
    # Imported where it is chosen: the other's driver and dialect would take 1.6 MB.
    if isinstance(address, LedgerFile):
        from . import sqlite  # noqa: PLC0415

        return sqlite.open_engine(address)
    from . import mysql  # noqa: PLC0415

    return mysql.open_engine(address)


def repeatable(call: Callable[P, T]) -> Callable[P, T]:
    """Repeat a call whose transaction the database took back: a deadlock, a lost connection.

    What it repeats is a port's method, from its beginning; all of them can be.
    """

    @wraps(call)
    def insistent(*args: P.args, **kwargs: P.kwargs) -> T:
        give_up_at = time.monotonic() + PATIENCE
        wait = _SHORTEST_WAIT
        met = 0
        while True:
            try:
                return call(*args, **kwargs)
            except Undone as undone:
                met += undone.is_refusal
                if met > _MEETINGS:
                    raise LedgerRefused(str(undone)) from undone
                if time.monotonic() + wait > give_up_at:
                    raise
            # By chance, so that those who met do not meet again.
            time.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311
            wait = min(2 * wait, _LONGEST_WAIT)

    return insistent


class Database:
    """An engine as the adapters use it."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """*engine* comes from `open_engine`; *clock* counts where the database has none."""
        self.vendor: Vendor = vendor_of(engine)
        self._engine = engine
        self._clock = clock

    def now(self) -> datetime:
        """Tell the ledger's time."""
        return self.vendor.now(self._clock, partial(self.read, "asking for the time"))

    @contextmanager
    def read(self, doing: str) -> Iterator[Connection]:
        """Give a connection whose statements each see what is committed when they begin."""
        with self._own_errors(doing), self._engine.connect() as connection, self._undone(doing):
            yield connection

    @contextmanager
    def write(self, doing: str) -> Iterator[Connection]:
        """Give a connection in a transaction that is committed at the end, or rolled back."""
        with (
            self._own_errors(doing),
            self.vendor.writing(),
            self._engine.connect() as connection,
            connection.begin(),
            self._undone(doing),
        ):
            self.vendor.begin(connection)
            yield connection

    def _own_errors(self, doing: str) -> AbstractContextManager[None]:
        return own_errors(self._engine, doing)

    def _undone(self, doing: str) -> AbstractContextManager[None]:
        return own_errors(self._engine, doing, committing=False)


@contextmanager
def own_errors(engine: Engine, doing: str, *, committing: bool = True) -> Iterator[None]:
    """Turn a vendor's errors into ours; *doing* says what was under way.

    *committing* says that a transaction's end may have been asked for, so that after a lost
    connection nobody knows what became of it.
    """
    try:
        yield
    except SQLAlchemyError as error:
        vendor = vendor_of(engine)
        if vendor.is_outdated(error):
            text = f"{doing} in {vendor.place}: its schema is not this program's; {UPGRADE}"
            raise LedgerOutdated(text) from error
        text = f"{doing} in {vendor.place}: {vendor.explain(error)}"
        refused = vendor.is_refused(error)
        if vendor.is_undone(error, committing=committing):
            raise Undone(text, is_refusal=refused) from error
        raise (LedgerRefused if refused else LedgerUnavailable)(text) from error
    except (OverflowError, UnicodeError) as error:  # a driver's, of what it cannot even send
        raise LedgerRefused(f"{doing}: {error}") from error
