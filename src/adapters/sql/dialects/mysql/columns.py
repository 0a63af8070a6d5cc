"""The types of MySQL's and MariaDB's columns.

A text column says its collation: an adopted table may have any, and a key or a name is the same
only if every letter is.
"""

from functools import partial
from typing import Final

from sqlalchemy import BigInteger, Boolean
from sqlalchemy.dialects.mysql import DATETIME, MEDIUMTEXT, VARCHAR

from ...dialect import Columns

COLLATION: Final = "utf8mb4_bin"

COLUMNS: Final = Columns(
    id=BigInteger(),
    moment=DATETIME(fsp=6),
    flag=Boolean(),
    text=MEDIUMTEXT(collation=COLLATION),  # MySQL's own TEXT ends at 64 KB
    string=partial(VARCHAR, collation=COLLATION),
    reads_moments=True,
)
