"""The schema: made, upgraded, and checked."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, inspect, select

from cronhare.domain.texts.printable import echo
from cronhare.ports import LedgerNewer, LedgerOutdated

from ..database import connected, translate_errors
from ..dialect import UPGRADE, dialect_of

#: A name of its own: an adopted database may keep another program's migrations.
VERSION_TABLE = "cronhare_schema"

_versions = Table(VERSION_TABLE, MetaData(), Column("version_num", String(32)))
_MIGRATIONS = Path(__file__).parent

#: The revisions, as the names of their files begin: to import them takes long at each start.
_REVISIONS: Final = frozenset(
    path.name[:4] for path in (_MIGRATIONS / "versions").glob("[0-9][0-9][0-9][0-9]_*.py")
)

#: The newest one. A test compares it with what the migrations say of themselves.
HEAD: Final = max(_REVISIONS)


def upgrade(engine: Engine, now: datetime | None = None) -> list[str]:
    """Bring the schema to the newest revision; answers the revisions that were applied.

    All of it happens, or nothing; where the database cannot take back a half, the next call goes
    on with it. Of two processes that upgrade at once the second waits, and finds nothing to do.
    Schedules that are adopted count as edited at *now*.

    Raises:
        LedgerOutdated: a newer program made the schema, or none that was released.
        LedgerUnavailable: it could not be done.
    """
    from alembic import command  # noqa: PLC0415 - a worker's start does without
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    applied: list[str] = []
    with (
        translate_errors(engine, "upgrading the schema"),
        dialect_of(engine).migrating(engine) as connection,
    ):
        revision = _revision(connection)
        if revision is not None and revision not in _REVISIONS:
            raise _foreign(engine, revision)
        config.attributes.update(
            connection=connection, applied=applied, now=now or datetime.now(UTC)
        )
        command.upgrade(config, "head")
    return applied


def check_schema(engine: Engine) -> None:
    """Make sure that this program and the schema belong together.

    Raises:
        LedgerOutdated: they do not; the sentence says what to do.
        LedgerUnavailable: the database cannot be asked.
    """
    with connected(engine, "checking the schema") as connection:
        revision = _revision(connection)
    if revision == HEAD:
        return
    place = dialect_of(engine).place
    if revision is None:
        raise LedgerOutdated(f"{place} holds no ledger yet: {UPGRADE}, or set CRON_DATABASE_URL")
    if revision in _REVISIONS:
        raise LedgerOutdated(f"{place} is at schema {revision}, not {HEAD}: {UPGRADE}")
    raise _foreign(engine, revision)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.scalar(select(_versions.c.version_num))


def _foreign(engine: Engine, revision: str) -> LedgerOutdated:
    place = dialect_of(engine).place
    if revision > HEAD:
        return LedgerNewer(f"{place} was made by a newer cronhare: install that version here")
    what = f"{place} is at schema {echo(revision)}, which no release has made"
    way = "see Upgrade in docs/operators.md, or set CRON_DATABASE_URL to another ledger"
    return LedgerOutdated(f"{what}: {way}")
