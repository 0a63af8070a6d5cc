"""The schema: made, upgraded, and checked."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, inspect, select

from cronhare.adapters.sql.tables.types import UtcDateTime, read_moment
from cronhare.domain.texts.echo import echo
from cronhare.ports import LedgerNewer, LedgerOutdated, LedgerUnmade

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

#: The oldest and the newest one. A test compares it with what the migrations say of themselves.
_FIRST, HEAD = min(_REVISIONS), max(_REVISIONS)


def upgrade(engine: Engine, now: datetime | None = None) -> list[str]:
    """Bring the schema to the newest revision; answers the revisions that were applied.

    All of it happens, or nothing; where the database cannot take back a half, the next call goes
    on with it. Of two processes that upgrade at once the second waits, and finds nothing to do.
    Schedules that are adopted count as edited at *now*.

    Raises:
        LedgerOutdated: a newer program made the schema, or one from before the first release.
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
        raise LedgerUnmade(f"{place} holds no ledger yet: {UPGRADE}")
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
    return LedgerOutdated(
        f"{place} is at schema {echo(revision)}, from before the first release: upgrade it to 0039 "
        f"with commit e58db3f9, then set version_num in {VERSION_TABLE} to '{_FIRST}'"
    )


#: So many rows are read and written at once.
_PAGE = 1_000

_KEY = re.compile(r"(?:cron|once)-(\d{4})-(\d{1,2})-(\d{1,2})-(\d{1,2})-(\d{1,2})")

_schedulers = sa.table(
    "Scheduler",
    *map(sa.column, ("id", "report_id", "worker_id", "reminder_id")),
    sa.column("created_at", UtcDateTime),
    sa.column("updated_at", UtcDateTime),
)
_executions = sa.table(
    "SchedulerExecution",
    *map(sa.column, ("id", "scheduler_id", "execution_key", "executed_at", "container_id")),
    *map(sa.column, ("state", "task_type", "task_id")),
    sa.column("due_at", UtcDateTime),
    sa.column("finished_at", UtcDateTime),
)

_ADOPT = (
    sa.update(_executions)
    .where(_executions.c.id == sa.bindparam("row_id"))
    .values(
        state="succeeded",
        execution_key=sa.bindparam("key"),
        container_id=sa.bindparam("node"),
        executed_at=sa.bindparam("at", type_=UtcDateTime),
        finished_at=sa.bindparam("at", type_=UtcDateTime),
        due_at=sa.bindparam("due", type_=UtcDateTime),
    )
)
_RENAME = (
    sa.update(_executions)
    .where(_executions.c.id == sa.bindparam("row_id"))
    .values(execution_key=sa.bindparam("key"))
)


def adopt_schedulers(connection: sa.Connection, now: datetime) -> None:
    """Let all schedules count as edited now, so that none of them runs an older instant."""
    connection.execute(sa.update(_schedulers).values(created_at=now, updated_at=now))


def adopt_executions(connection: sa.Connection, now: datetime) -> None:
    """Give old executions their place in the ledger.

    They become `succeeded`: their messages were published, and what came of them was never
    written down. To call them anything unfinished would run them a second time.
    """
    for page in _pages(connection):
        connection.execute(_ADOPT, [_adopted(row, now) for row in page])
    _tell_twins_apart(connection)
    for kind in ("report", "worker", "reminder"):
        _name_task(connection, kind)


def _pages(connection: sa.Connection) -> Iterator[list[sa.Row[Any]]]:
    statement = (
        sa.select(_executions)
        .where(_executions.c.id > sa.bindparam("last"))
        .order_by(_executions.c.id)
        .limit(_PAGE)
    )
    last = 0
    while page := list(connection.execute(statement, {"last": last})):
        yield page
        last = page[-1].id


def _adopted(row: sa.Row[Any], now: datetime) -> dict[str, Any]:
    named = _minute_in(row.execution_key)
    executed_at = read_moment(row.executed_at) or named or now
    return {
        "row_id": row.id,
        "key": _harmless(row, named, now),
        "node": row.container_id or "",
        "at": executed_at,
        # The key's own minute may have been read off any wall clock: it is the second choice.
        "due": executed_at.replace(second=0, microsecond=0),
    }


def _minute_in(key: object) -> datetime | None:
    match = _KEY.fullmatch(str(key))
    try:
        return datetime(*map(int, match.groups()), tzinfo=UTC) if match else None  # type: ignore[misc, arg-type]
    except ValueError:
        return None


def _harmless(row: sa.Row[Any], named: datetime | None, now: datetime) -> str:
    """Keep the key, unless it would swallow a run that is still to come.

    A clock ahead of UTC made keys that our own will reach in some hours.
    """
    if row.execution_key is None or (named is not None and named > now):
        return f"adopted-{row.id}-{row.execution_key}"
    return str(row.execution_key)


def _tell_twins_apart(connection: sa.Connection) -> None:
    """Where nothing kept keys unique until now, the first of each keeps its own."""
    key = (_executions.c.scheduler_id, _executions.c.execution_key)
    first = sa.func.min(_executions.c.id).label("first")
    twice = sa.select(*key, first).group_by(*key).having(sa.func.count() > 1)
    for scheduler_id, text, first_id in connection.execute(twice).all():
        others = sa.select(_executions.c.id).where(
            _executions.c.scheduler_id == scheduler_id,
            _executions.c.execution_key == text,
            _executions.c.id > first_id,
        )
        renamed = [{"row_id": id_, "key": f"{text}#{id_}"} for id_ in connection.scalars(others)]
        connection.execute(_RENAME, renamed)


def _name_task(connection: sa.Connection, kind: str) -> None:
    column = _schedulers.c[f"{kind}_id"]
    of_schedule = _schedulers.c.id == _executions.c.scheduler_id
    task = sa.select(column).where(of_schedule).scalar_subquery()
    having_one = sa.exists().where(of_schedule, column.is_not(None))
    connection.execute(
        sa.update(_executions).where(having_one).values(task_type=kind, task_id=task)
    )
