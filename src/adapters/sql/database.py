"""An engine, its transactions, and the one place where vendors' errors become ours."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerOutdated, LedgerUnavailable

from . import sqlite
from .vendor import Vendor, remember, vendor_of

UPGRADE = "run `cronhare db upgrade`"


def open_engine(url: str) -> Engine:
    """Make the engine for a database URL, `sqlite:///path`. Connects to nothing yet.

    The file's folder is created if it is missing.

    Raises:
        ValueError: the URL is not one that the ledger can be kept at.
        LedgerUnavailable: the folder cannot be created.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ValueError("a database URL looks like sqlite:///cronhare.db") from error
    if parsed.get_backend_name() != "sqlite":
        raise ValueError(f"the ledger cannot be kept in {parsed.get_backend_name()}; use sqlite")
    if parsed.database is None or parsed.database in {"", ":memory:"}:
        raise ValueError("a ledger in memory would be lost with its process; name a file")
    _make_folder(Path(parsed.database).parent)
    engine = create_engine(parsed, connect_args={"timeout": sqlite.BUSY_SECONDS})
    event.listen(engine, "connect", lambda connection, _record: sqlite.prepare(connection))
    return remember(engine, sqlite.SqliteVendor())


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerUnavailable(f"making the ledger's folder {folder}: {error.strerror}") from error


class Database:
    """An engine as the adapters use it."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """*engine* comes from `open_engine`; *clock* counts where the database has none."""
        self.vendor: Vendor = vendor_of(engine)
        self._engine = engine
        self._clock = clock

    def now(self) -> datetime:
        """Tell the ledger's time."""
        return self.vendor.now(self._clock)

    @contextmanager
    def read(self, doing: str) -> Iterator[Connection]:
        """Give a connection whose statements each see what is committed when they begin."""
        with self._own_errors(doing), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self, doing: str) -> Iterator[Connection]:
        """Give a connection in a transaction that is committed at the end, or rolled back."""
        with (
            self._own_errors(doing),
            self.vendor.writing(),
            self._engine.connect() as connection,
            connection.begin(),
        ):
            self.vendor.begin(connection)
            yield connection

    def _own_errors(self, doing: str) -> AbstractContextManager[None]:
        return own_errors(self._engine, doing)


@contextmanager
def own_errors(engine: Engine, doing: str) -> Iterator[None]:
    """Turn a vendor's errors into ours; *doing* says what was under way."""
    try:
        yield
    except SQLAlchemyError as error:
        vendor, where = vendor_of(engine), engine.url.render_as_string()
        if vendor.is_outdated(error):
            text = f"{doing} in {where}: its schema is not this program's; {UPGRADE}"
            raise LedgerOutdated(text) from error
        raise LedgerUnavailable(f"{doing} in {where}: {vendor.explain(error)}") from error
