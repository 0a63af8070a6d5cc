"""Whether the tables are those of this program: looked at, once something is missing.

What is missing may be somebody's own: a trigger on a table of ours writes where it likes, and its
columns may be called as ours are.
"""

from contextlib import suppress

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from ..dialect import Dialect
from ..schema.tables import metadata


def fits(connection: Connection, dialect: Dialect) -> bool:
    """Tell whether each table has the columns that we know. No row of them is read.

    A connection that does not answer any more says nothing of them. What has failed is taken back
    first: some databases answer nothing else in its transaction.
    """
    try:
        with suppress(connection.dialect.loaded_dbapi.Error):
            connection.connection.rollback()
        for table in metadata.sorted_tables:
            connection.execute(select(table).limit(0))
    except SQLAlchemyError as error:
        return not dialect.errors.is_missing(error)
    return True
