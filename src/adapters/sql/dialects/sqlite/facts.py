"""What SQLite says of itself, for `cronhare doctor`."""

import sqlite3
from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection, text

from cronhare.domain.diagnosis.database import DatabaseFacts, Exhausted
from cronhare.domain.diagnosis.ledger import LedgerFacts, SchemaFault
from cronhare.domain.messages.ids import LARGEST_ID

from ...dialect import UPGRADE
from ...schema.tables import own_tables
from .requirements import REQUIREMENTS

_COUNTS: Final = text("SELECT COUNT(*) FROM sqlite_master WHERE name = 'sqlite_sequence'")
_NUMBERED: Final = text("SELECT name FROM sqlite_sequence WHERE seq >= :last ORDER BY name")
_PRAGMAS: Final = ("journal_mode", "synchronous", "foreign_keys")


def facts_of_none(path: str) -> LedgerFacts:
    """Tell what is known while there is no file at *path*."""
    database = DatabaseFacts(
        product="SQLite", version=sqlite3.sqlite_version, requirements=REQUIREMENTS
    )
    fault = SchemaFault(f"There is no file {path} yet", f"{UPGRADE}, or start `cronhare up`")
    return LedgerFacts(database=database, schema=fault)


def facts_of(connection: Connection) -> DatabaseFacts:
    return DatabaseFacts(
        product="SQLite",
        version=sqlite3.sqlite_version,
        requirements=REQUIREMENTS,
        settings={name: _pragma(connection, name) for name in _PRAGMAS},
        exhausted=tuple(_exhausted(connection)),
    )


def _exhausted(connection: Connection) -> Iterator[Exhausted]:
    """Name the tables that can number no other row. An empty file counts nothing yet."""
    if not connection.scalar(_COUNTS):
        return
    for table in own_tables(connection.scalars(_NUMBERED, {"last": LARGEST_ID})):
        newest = f"(SELECT MAX(id) FROM {table})"  # noqa: S608 - a name of our own
        cure = f"UPDATE sqlite_sequence SET seq = {newest} WHERE name = '{table}'"  # noqa: S608
        yield Exhausted(table, cure)


def _pragma(connection: Connection, name: str) -> str:
    return str(connection.exec_driver_sql(f"PRAGMA {name}").scalar())
