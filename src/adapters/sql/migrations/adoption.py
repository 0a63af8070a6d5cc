"""The adoption of rows that were there before us: of S1.3 and S1.4 in docs/compatibility.md."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from cronhare.adapters.sql.schema.types import UtcDateTime, read_moment

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
