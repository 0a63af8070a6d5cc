"""The databases that a ledger can be kept in: by SQLAlchemy's names for them.

Only the one that is used is imported: a driver takes a megabyte or more.
"""

from functools import cache
from importlib import import_module
from typing import Any

from sqlalchemy import Engine

from cronhare.adapters.addresses import LedgerFile, parse_ledger
from cronhare.adapters.extras import require

from ..dialect import Columns


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
        name = "sqlite"
    else:
        name = address.kind
        require(name)  # the extra of the same name
    engine: Engine = _module(name).open_engine(address)
    return engine


@cache
def columns_in(name: str) -> Columns:
    columns: Columns = _module(name).COLUMNS
    return columns


def _module(name: str) -> Any:  # noqa: ANN401 - a module
    return import_module(f".{name}", __name__)
