"""The types of SQLite's columns, which are but a hint: each takes values of any type."""

from typing import Final

from sqlalchemy import Boolean, Integer, String, Text

from ...dialect import Columns

#: Moments are text of one length, and of a form that our triggers can write.
LENGTH: Final = len("2025-12-12 08:00:00.000000")

COLUMNS: Final = Columns(
    id=Integer(),  # only an INTEGER PRIMARY KEY is numbered by itself
    moment=String(LENGTH),
    flag=Boolean(),
    text=Text(),
    string=String,
    reads_moments=False,
)
