"""Column types, as each database has them, for all migrations.

On MySQL a text column says its collation: an adopted table may have any, and a key or a name is
the same only if every letter is.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

COLLATION = "utf8mb4_bin"

#: SQLite numbers only an INTEGER PRIMARY KEY by itself.
ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")

#: SQLite keeps moments as text of one length, and of a form that our triggers can write.
MOMENT = (
    sa.DateTime().with_variant(sa.String(26), "sqlite").with_variant(mysql.DATETIME(fsp=6), "mysql")
)

#: MySQL's own TEXT ends at 64 KB.
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(collation=COLLATION), "mysql")

#: What a new table is made of; a database takes the options that are its own.
TABLE_OPTIONS: dict[str, Any] = {
    "sqlite_autoincrement": True,
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": COLLATION,
}


def string(length: int) -> TypeEngine[str]:
    """Give a text of at most *length* letters."""
    return sa.String(length).with_variant(mysql.VARCHAR(length, collation=COLLATION), "mysql")


def columns_of(connection: sa.Connection, table: str) -> set[str]:
    """By a SELECT, not by reflection: that stumbles over types such as TINYINT(1) in SQLite."""
    nothing = sa.select(sa.text("*")).select_from(sa.table(table)).limit(0)
    return set(connection.execute(nothing).keys())
