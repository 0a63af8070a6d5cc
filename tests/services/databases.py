"""A database on a server, of whichever kind: what an operator does there."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from secrets import token_hex
from typing import Any, TypeAlias

import pymysql
from sqlalchemy import URL

from tests.services import mariadb, postgresql

Server: TypeAlias = mariadb.Server | postgresql.Server

#: The sessions of whoever is neither the server itself nor we.
_OTHERS = """\
SELECT id FROM information_schema.processlist
WHERE id <> CONNECTION_ID() AND user = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)
"""
_END_OTHERS = """\
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


def on_postgresql(url: URL) -> bool:
    return url.drivername.startswith("postgresql")


def connect(url: URL) -> Any:  # noqa: ANN401 - a driver's own
    return postgresql.connect(url) if on_postgresql(url) else mariadb.connect(url)


def run(url: URL, *statements: str) -> list[tuple[Any, ...]]:
    if on_postgresql(url):
        return postgresql.run(url, *statements)
    return mariadb.run(url, *statements)


@contextmanager
def database(server: Server) -> Iterator[URL]:
    name = f"cronhare_test_{token_hex(4)}"
    run(server.url, f"CREATE DATABASE {name}")
    try:
        yield server.url.set(database=name)
    finally:
        run(server.url, f"DROP DATABASE {name}{' WITH (FORCE)' * on_postgresql(server.url)}")


def end_sessions(server: Server) -> None:
    if on_postgresql(server.url):
        postgresql.run(server.url, _END_OTHERS)
        return
    with closing(mariadb.connect(server.url)) as session, session.cursor() as cursor:
        cursor.execute(_OTHERS)
        for (number,) in cursor.fetchall():
            with suppress(pymysql.MySQLError):  # it has gone by itself
                cursor.execute(f"KILL {number}")
