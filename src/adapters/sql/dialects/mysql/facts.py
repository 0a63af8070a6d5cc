"""What MySQL and MariaDB say of themselves, for `cronhare doctor`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sqlalchemy import Connection, text

from cronhare.domain.addresses import Host
from cronhare.domain.diagnosis.database import DatabaseFacts, Exhausted
from cronhare.domain.diagnosis.link import Link
from cronhare.domain.messages.ids import LARGEST_ID

from ...schema.tables import metadata, own_tables
from .requirements import REQUIREMENTS

_VARIABLES: Final = text(
    "SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation', "
    "'sql_mode', 'time_zone', 'character_set_connection', 'read_only', "
    "'innodb_flush_log_at_trx_commit', 'max_allowed_packet')"
)
_ENGINES: Final = text(
    "SELECT table_name, engine FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"
)
_NUMBERED: Final = text(
    "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND auto_increment >= :last ORDER BY table_name"
)


def facts_of(connection: Connection) -> DatabaseFacts:
    version = str(connection.scalar(text("SELECT VERSION()")))
    product = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    return DatabaseFacts(
        product=product,
        version=version,
        requirements=REQUIREMENTS[product],
        settings=_variables(connection),
        link=_link(connection),
        plain_tables=tuple(_plain_tables(connection)),
        exhausted=tuple(_exhausted(connection)),
    )


def _exhausted(connection: Connection) -> Iterator[Exhausted]:
    for table in own_tables(connection.scalars(_NUMBERED, {"last": LARGEST_ID})):
        yield Exhausted(table, f"ALTER TABLE {table} AUTO_INCREMENT = 1")


def _variables(connection: Connection) -> Mapping[str, str]:
    said = {str(name): str(value) for name, value in connection.execute(_VARIABLES)}
    older = said.pop("tx_isolation", None)  # MariaDB's only name for it before 11.1
    return said if older is None else {"transaction_isolation": older, **said}


def _link(connection: Connection) -> Link:
    """Tell how this very connection is encrypted, as server and driver see it."""
    session: Any = connection.connection.dbapi_connection
    [(_, version)] = connection.execute(text("SHOW SESSION STATUS LIKE 'Ssl_version'"))
    context = getattr(session, "ctx", None)
    host = Host(str(session.host), int(session.port))
    return Link(
        host=str(host),
        local=bool(session.unix_socket) or host.is_local,
        tls=str(version) or None,
        verified=bool(version) and context is not None and context.check_hostname,
    )


def _plain_tables(connection: Connection) -> Iterator[str]:
    ours = {name.lower() for name in metadata.tables}
    for name, engine in connection.execute(_ENGINES):
        if name.lower() in ours and engine != "InnoDB":
            yield name
