"""The types of PostgreSQL's columns.

Texts have the collation "C": they are compared byte by byte, and an index of them outlives an
upgrade of the system's own collations.
"""

from functools import partial
from typing import Final

from sqlalchemy import BigInteger, SmallInteger
from sqlalchemy.dialects.postgresql import TEXT, TIMESTAMP, VARCHAR

from ...dialect import Columns

COLLATION: Final = "C"

COLUMNS: Final = Columns(
    id=BigInteger(),
    moment=TIMESTAMP(timezone=True),
    flag=SmallInteger(),  # `SET status = 1` is refused for a BOOLEAN
    text=TEXT(collation=COLLATION),
    string=partial(VARCHAR, collation=COLLATION),
    reads_moments=True,
)
