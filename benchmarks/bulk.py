"""Writing very many rows, by whatever a database takes fastest. No rule of ours is asked."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from sqlalchemy import Engine, Table

#: Rows of one transaction.
STEP: Final = 20_000

Row = Sequence[Any]


def insert_many(engine: Engine, table: Table, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Insert rows whose values are in the order of *columns*, moments as texts."""
    quote = engine.dialect.identifier_preparer.quote
    into = f"{quote(table.name)} ({', '.join(map(quote, columns))})"
    connection = engine.raw_connection()
    try:
        for part in _parts(rows):
            cursor = connection.cursor()
            if engine.dialect.name == "postgresql":
                with cursor.copy(f"COPY {into} FROM STDIN") as copy:
                    for row in part:
                        copy.write_row(row)
            else:
                cursor.execute("BEGIN")
                mark = "?" if engine.dialect.name == "sqlite" else "%s"
                marks = ", ".join([mark] * len(columns))
                cursor.executemany(f"INSERT INTO {into} VALUES ({marks})", part)
            cursor.close()
            connection.commit()
    finally:
        connection.close()
    if engine.dialect.name == "postgresql" and "id" in columns:
        with engine.begin() as open_:
            open_.exec_driver_sql(
                f"SELECT setval(pg_get_serial_sequence('{quote(table.name)}', 'id'), max(id))"
                f" FROM {quote(table.name)}"
            )


def analyze(engine: Engine) -> None:
    """Let the database count its rows, as it does by itself in the course of time."""
    with engine.begin() as connection:
        if engine.dialect.name == "mysql":
            names = connection.exec_driver_sql("SHOW TABLES").scalars().all()
            connection.exec_driver_sql(f"ANALYZE TABLE {', '.join(f'`{name}`' for name in names)}")
        elif engine.dialect.name == "postgresql":
            connection.exec_driver_sql("ANALYZE")


def _parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    rest = iter(rows)
    while part := list(islice(rest, STEP)):
        yield part
