"""What PostgreSQL says of itself, for `cronhare doctor`."""

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, text

from cronhare.domain.addresses import Host
from cronhare.domain.diagnosis.database import DatabaseFacts, Exhausted
from cronhare.domain.diagnosis.link import Link
from cronhare.domain.messages.ids import LARGEST_ID

from ...schema.tables import own_tables
from .requirements import REQUIREMENTS

_SETTINGS: Final = text(
    "SELECT name, current_setting(name) FROM pg_settings WHERE name IN ('transaction_isolation', "
    "'TimeZone', 'server_encoding', 'transaction_read_only', 'synchronous_commit', 'fsync', "
    "'full_page_writes', 'max_connections') UNION ALL "
    "SELECT 'in_recovery', CASE WHEN pg_is_in_recovery() THEN 'on' ELSE 'off' END"
)
_TLS: Final = text("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl")
_NUMBERED: Final = text(
    "SELECT t.relname FROM pg_sequences s JOIN pg_class c ON c.relname = s.sequencename "
    "AND c.relnamespace = s.schemaname::regnamespace "
    "JOIN pg_depend d ON d.objid = c.oid AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0 "
    "JOIN pg_class t ON t.oid = d.refobjid "
    "WHERE s.schemaname = current_schema() AND s.last_value >= :last ORDER BY t.relname"
)


def facts_of(connection: Connection) -> DatabaseFacts:
    return DatabaseFacts(
        product="PostgreSQL",
        version=str(connection.scalar(text("SHOW server_version"))),
        requirements=REQUIREMENTS,
        settings={str(name): str(value) for name, value in connection.execute(_SETTINGS)},
        link=_link(connection),
        exhausted=tuple(_exhausted(connection)),
    )


def _exhausted(connection: Connection) -> Iterator[Exhausted]:
    for table in own_tables(connection.scalars(_NUMBERED, {"last": LARGEST_ID})):
        newest = f"(SELECT coalesce(max(id), 0) + 1 FROM {table})"  # noqa: S608 - our own name
        sequence = f"pg_get_serial_sequence('{table}', 'id')"
        yield Exhausted(table, f"SELECT setval({sequence}, {newest}, false)")


def _link(connection: Connection) -> Link:
    """Tell how this very connection is encrypted, as server and driver see it."""
    session: Any = connection.connection.dbapi_connection
    info = session.info
    on_socket = info.host.startswith("/")
    host = Host("localhost" if on_socket else info.host, info.port)
    version = connection.scalar(_TLS)
    return Link(
        host=str(host),
        local=on_socket or host.is_local,
        tls=version,
        verified=bool(version) and info.get_parameters().get("sslmode") == "verify-full",
    )
