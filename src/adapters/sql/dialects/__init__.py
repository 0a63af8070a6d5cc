"""The databases that a ledger can be kept in: each is a folder, known by SQLAlchemy's name for it.

Each is imported where it is chosen: a driver that is not used would take a megabyte or more.
"""

from typing import TYPE_CHECKING, Final

from sqlalchemy import Engine

from cronhare.adapters.extras import require
from cronhare.domain.addresses import LedgerFile, parse_ledger
from cronhare.domain.texts.listing import listed

if TYPE_CHECKING:
    from ..dialect import Columns

#: The folders. The schemes of their URLs are in `cronhare.domain.addresses`.
NAMES: Final = ("sqlite", "mysql", "postgresql")


def open_engine(url: str) -> Engine:
    """Make the engine for a database URL. Connects to nothing yet, and makes nothing.

    `sqlite:///path`; `mysql+pymysql://user:password@host/database`, which MariaDB has as well; or
    `postgresql+psycopg://user:password@host/database`.

    Raises:
        ValueError: the URL is not one that the ledger can be kept at, or its certificates cannot be
            read; the text shows no secret.
        ExtraMissing: the libraries for such a server are not installed.
    """
    address = parse_ledger(url)
    if isinstance(address, LedgerFile):
        from .sqlite import dialect as sqlite  # noqa: PLC0415

        return sqlite.open_engine(address)
    match address.kind:
        case "mysql":
            require("mysql")
            from .mysql import dialect as mysql  # noqa: PLC0415

            return mysql.open_engine(address)
        case "postgresql":
            require("postgresql")
            from .postgresql import dialect as postgresql  # noqa: PLC0415

            return postgresql.open_engine(address)
    raise _unknown(address.kind)


def columns_in(name: str) -> "Columns":
    """Give the types of the columns of one database.

    Raises:
        ValueError: nobody knows it.
    """
    match name:
        case "sqlite":
            from .sqlite.schema import COLUMNS as SQLITE_COLUMNS  # noqa: PLC0415

            return SQLITE_COLUMNS
        case "mysql":
            from .mysql.schema import COLUMNS as MYSQL_COLUMNS  # noqa: PLC0415

            return MYSQL_COLUMNS
        case "postgresql":
            from .postgresql.schema import COLUMNS as POSTGRESQL_COLUMNS  # noqa: PLC0415

            return POSTGRESQL_COLUMNS
    raise _unknown(name)


def _unknown(name: str) -> ValueError:
    return ValueError(f"no ledger can be kept in {name}; it can in {listed(NAMES)}")
