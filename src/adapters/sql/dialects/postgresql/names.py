"""Names without quotes, which PostgreSQL folds: `Scheduler` to `scheduler`, in people's SQL, too.

A table whose name was quoted could not be found by a person who writes it plainly.
"""

from typing import Any, Final

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg, PGIdentifierPreparer_psycopg

from .schema import COLLATION

#: How SQLAlchemy's dialect with such names is called in a URL.
DRIVER: Final = "postgresql+cronhare"


class PlainNames(PGIdentifierPreparer_psycopg):
    """Writes names without quotes."""

    def _requires_quotes(self, value: str) -> bool:
        return super()._requires_quotes(value if value == COLLATION else value.lower())


class PlainDialect(PGDialect_psycopg):
    """SQLAlchemy's dialect for psycopg, with names that are folded."""

    preparer = PlainNames
    supports_statement_cache = True

    def has_table(self, connection: Any, table_name: str, *args: Any, **more: Any) -> Any:  # noqa: ANN401
        """Look for a table by its name as the server has it."""
        return super().has_table(connection, table_name.lower(), *args, **more)  # type: ignore[no-untyped-call]

    def get_indexes(self, connection: Any, table_name: str, *args: Any, **more: Any) -> Any:  # noqa: ANN401
        """Look for indexes likewise."""
        return super().get_indexes(connection, table_name.lower(), *args, **more)  # type: ignore[no-untyped-call]


registry.register("postgresql.cronhare", __name__, PlainDialect.__name__)
