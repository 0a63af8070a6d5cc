"""Whether the tables are those of this program: checked once something is missing.

What is missing may belong to a trigger on a table of ours, which writes into any table, perhaps to
columns with names of ours.
"""

from contextlib import suppress

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from ..dialect import Dialect
from ..schema.tables import metadata


def fits(connection: Connection, dialect: Dialect) -> bool:
    """Tell whether each table has the columns that we know, without reading a row.

    True if the connection does not answer any more. The failed transaction is rolled back first:
    some databases answer nothing else within it.
    """
    try:
        with suppress(connection.dialect.loaded_dbapi.Error):
            connection.connection.rollback()
        for table in metadata.sorted_tables:
            connection.execute(select(table).limit(0))
    except SQLAlchemyError as error:
        return not dialect.errors.is_missing(error)
    return True
